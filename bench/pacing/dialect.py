"""The bytes of vLLM's chat stream: the fake worker writes them, the client reads them. Pure.

Source: what vLLM 0.32 sends for `stream_options: {include_usage, continuous_usage_stats}`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from bench.pacing.patterns import Pattern

_HEAD_END = b"\r\n\r\n"
_FRAME_END = b"\n\n"
_DONE = b"[DONE]"
_PROMPT_TOKENS = 20
_CREATED = 1_790_000_000


class StreamError(Exception):
    """The bytes are not a good answer; the message says what they are."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Text that came with one packet.

    Attributes:
        at_ns: Clock when it came.
        text: Not empty.
        tokens: Completion tokens so far, as the worker counts; None where it does not say.
    """

    at_ns: int
    text: str
    tokens: int | None


def frames_of(pattern: Pattern, *, model: str, serial: str) -> tuple[list[bytes], bytes]:
    """The frames of an answer.

    Returns:
        For each chunk of `pattern` the bytes to send with it, the first one's with the opening
        before it; and the bytes that end the answer.
    """
    head = f'data: {{"id":"chatcmpl-{serial}","object":"chat.completion.chunk","created":{_CREATED}'
    head += f',"model":{json.dumps(model)},'
    opening = (
        f'{head}"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},'
        f'"logprobs":null,"finish_reason":null}}]{_running_usage(0)},"prompt_token_ids":null,'
        '"prompt_text":null}\n\n'
    )
    frames = [opening.encode()]
    sent = 0
    for number, chunk in enumerate(pattern.chunks, start=1):
        sent += chunk.tokens
        text = json.dumps(chunk.text, ensure_ascii=False)
        is_last = number == len(pattern.chunks)
        end = '"finish_reason":"length","stop_reason":null' if is_last else '"finish_reason":null'
        frame = f'{head}"choices":[{{"index":0,"delta":{{"content":{text}}},"logprobs":null,{end},'
        frames.append(f'{frame}"token_ids":null}}]{_running_usage(sent)}}}\n\n'.encode())
    usage = f'{head}"choices":[]{_usage(sent)},"system_fingerprint":"vllm-0.32.0-pacing"}}\n\n'
    sized = [_http_chunk(frame) for frame in frames]
    return [sized[0] + sized[1], *sized[2:]], _ending(usage.encode())


def _ending(usage: bytes) -> bytes:
    return _http_chunk(usage) + _http_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


def _http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _usage(tokens: int, details: str = "") -> str:
    total = _PROMPT_TOKENS + tokens
    counts = f'"prompt_tokens":{_PROMPT_TOKENS},"total_tokens":{total},"completion_tokens":{tokens}'
    return f',"usage":{{{counts}{details}}}'


def _running_usage(tokens: int) -> str:
    return _usage(tokens, ',"completion_tokens_details":null')


def read_answer(packets: Sequence[tuple[int, bytes]]) -> list[Arrival]:
    """The text of an answer by the packets that completed it.

    Args:
        packets: Clock and bytes of each read from the socket, in order, all of the answer.

    Returns:
        One arrival for each packet that brought text.

    Raises:
        StreamError: It is no stream, a frame is an error, or the stream was cut short.
    """
    reader = _Reader()
    arrivals = []
    for at_ns, data in packets:
        text = reader.take(data)
        if text:
            arrivals.append(Arrival(at_ns, text, reader.tokens))
    if not reader.is_done:
        raise StreamError("the stream ended without [DONE]")
    return arrivals


class _Reader:
    """Parses the bytes of one answer as they arrive.

    Attributes:
        tokens: The last running count.
        is_done: `[DONE]` has arrived.
    """

    def __init__(self) -> None:
        self._raw = b""
        self._body = b""
        self._in_body = False
        self.tokens: int | None = None
        self.is_done = False

    def take(self, data: bytes) -> str:
        """The text of the frames that are whole with `data`."""
        self._raw += data
        if not self._in_body and not self._take_head():
            return ""
        self._take_chunks()
        *frames, self._body = self._body.split(_FRAME_END)
        return "".join(self._text_of(frame) for frame in frames)

    def _take_head(self) -> bool:
        end = self._raw.find(_HEAD_END)
        if end < 0:
            return False
        head = self._raw[:end]
        if b"transfer-encoding: chunked" not in head.lower():
            raise StreamError("the answer is no stream")
        self._raw = self._raw[end + len(_HEAD_END) :]
        self._in_body = True
        return True

    def _take_chunks(self) -> None:
        at = 0
        while (line_end := self._raw.find(b"\r\n", at)) >= 0:
            begin = line_end + 2
            end = begin + int(self._raw[at:line_end], 16)
            if end + 2 > len(self._raw):
                break
            self._body += self._raw[begin:end]
            at = end + 2
        self._raw = self._raw[at:]

    def _text_of(self, frame: bytes) -> str:
        data = b"".join(
            line.removeprefix(b"data: ") for line in frame.split(b"\n") if line[:1] == b"d"
        )
        if not data:
            return ""  # a comment: padding, or a sign of life
        if data == _DONE:
            self.is_done = True
            return ""
        chunk = json.loads(data)
        if "error" in chunk:
            raise StreamError(data[:300].decode(errors="replace"))
        usage = chunk.get("usage")
        if usage is not None:
            self.tokens = int(usage["completion_tokens"])
        return "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
