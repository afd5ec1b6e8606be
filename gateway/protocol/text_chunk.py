"""Splits frames that carry only text, so that parts of the text can be sent as frames of their own.

The bytes around the text (the envelope) are the same from frame to frame, so they are learnt once
and then compared. A frame with anything else (a role, a tool call, log probabilities, token ids, a
finish reason, a second choice, an unknown member) is not split. The trace of its tokens, if there
is one, stays with the first part: its entries are in the order of the text (ADR 42).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from gateway.errors import InvalidRequestError
from gateway.protocol.endpoints import Dialect
from gateway.protocol.json_object import NOT_JSON, json_text, read_members, write_members
from gateway.protocol.sse import data_of, event_of
from gateway.protocol.usage import cut_running_usage

_LITERAL = rb'":\s*"((?:[^"\\]|\\.)*)"'
# Quotes inside a JSON string are escaped, so these only match real keys.
_KEYS = {
    Dialect.CHAT: re.compile(rb'"(?:content|reasoning|reasoning_content)' + _LITERAL),
    Dialect.COMPLETIONS: re.compile(rb'"text' + _LITERAL),
    Dialect.RESPONSES: re.compile(rb'"delta' + _LITERAL),
    Dialect.MESSAGES: re.compile(rb'"(?:text|thinking)' + _LITERAL),
}
_TRACE = b',"speculation":{"trace":[['
_TRACE_END = b"]]}}\n\n"
_END = b"}\n\n"
_NUMBER = re.compile(rb'(?<="sequence_number":)( *)(\d+)')
_NUMBER_VALUE = msgspec.json.Decoder(int)
_STRING = msgspec.json.Decoder(str)
_PROBE = "a text that no model writes \u0007"
_COMMON = frozenset(("id", "object", "created", "model", "system_fingerprint", "service_tier"))
_RESPONSE_TEXTS = frozenset(
    f"response.{kind}.delta"
    for kind in ("output_text", "reasoning_text", "reasoning_summary_text", "refusal")
)
_RESPONSE_POSITION = frozenset(
    ("type", "item_id", "output_index", "content_index", "summary_index", "sequence_number")
)


@dataclass(frozen=True, slots=True)
class Envelope:
    """The bytes of a frame around its text.

    Attributes:
        before: Up to the text.
        after: After the text.
        after_part: `after` for every part of the text but the last: without token counts, which
            belong to the whole.
    """

    before: bytes
    after: bytes
    after_part: bytes


class TextChunk(NamedTuple):
    """A frame that was split.

    Attributes:
        envelope: The bytes around the text.
        frame: The original bytes.
        text: The text it adds to the answer, without lone surrogates.
        number: Its sequence number in a `/v1/responses` stream; None elsewhere.
        trace: The member with the trace of its tokens; empty if it has none.
    """

    envelope: Envelope
    frame: bytes
    text: str
    number: int | None = None
    trace: bytes = b""


class Part(NamedTuple):
    """Part of a chunk's text. The parts of a chunk, in order, make up its text."""

    chunk: TextChunk
    text: str
    is_last: bool


class TextChunks:
    """Splits the text frames of one stream and builds frames from the parts.

    Attributes:
        more_events: By how many events the client's stream is ahead of the worker's, if events are
            numbered.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._known: Envelope | None = None
        self._begun: TextChunk | None = None  # the chunk whose part was sent last
        self.more_events = 0

    def read(self, frame: bytes) -> TextChunk | None:
        """Split a frame; None if it cannot be split."""
        number, whole = None, frame
        if self._dialect is Dialect.RESPONSES:
            if (found := _NUMBER.search(frame)) is None:
                return None
            number = int(found.group(2))
            frame = frame[: found.start(2)] + b"0" + frame[found.end() :]
        frame, trace = _cut_trace(frame)
        if self._known is not None and (text := _text_in(self._known, frame)) is not None:
            return TextChunk(self._known, whole, text, number, trace)
        self._known = self._learn(frame)
        if self._known is None or (text := _text_in(self._known, frame)) is None:
            return None
        return TextChunk(self._known, whole, text, number, trace)

    def frames(self, parts: Sequence[Part]) -> bytes:
        """Build frames from parts, in order. Adjacent parts of one chunk share a frame."""
        if len(parts) == 1:
            return self._frame(parts[0], [parts[0].text])
        frames: list[bytes] = []
        texts: list[str] = []
        part: Part | None = None
        for following in parts:
            if part is not None and following.chunk is not part.chunk:
                frames.append(self._frame(part, texts))
                texts = []
            part = following
            texts.append(part.text)
        if part is not None:
            frames.append(self._frame(part, texts))
        return b"".join(frames)

    def renumbered(self, frame: bytes) -> bytes:
        """Correct the sequence number of a frame that was not split."""
        if not self.more_events:
            return frame
        data = data_of(frame)
        try:
            event = read_members(data)
            number = _NUMBER_VALUE.decode(event["sequence_number"])
        except (InvalidRequestError, KeyError, msgspec.DecodeError):  # no event with a number
            return frame
        event["sequence_number"] = json_text(number + self.more_events)
        return frame.replace(data, write_members(event))

    def _frame(self, last: Part, texts: list[str]) -> bytes:
        """The frame for parts of one chunk, of which `last` is the last."""
        envelope, number = last.chunk.envelope, last.chunk.number
        if last.text is last.chunk.text and not self.more_events:
            return last.chunk.frame  # not split
        text = msgspec.json.encode("".join(texts))[1:-1]
        frame = envelope.before + text + (envelope.after if last.is_last else envelope.after_part)
        if number is not None:
            frame = _NUMBER.sub(rb"\g<1>%d" % (number + self.more_events), frame, count=1)
            self.more_events += not last.is_last
        if last.chunk.trace and last.chunk is not self._begun:
            frame = frame[: -len(_END)] + last.chunk.trace + _END
        self._begun = last.chunk
        return frame

    def _learn(self, frame: bytes) -> Envelope | None:
        """Find the envelope of `frame`, verified by putting another text into it."""
        keys = _KEYS.get(self._dialect)
        for found in () if keys is None else keys.finditer(frame):
            before, after = frame[: found.start(1)], frame[found.end(1) :]
            part, _ = cut_running_usage(after)
            probe = before + msgspec.json.encode(_PROBE)[1:-1] + part
            if _only_text(self._dialect, probe) == _PROBE:
                return Envelope(before, after, part)
        return None


def _cut_trace(frame: bytes) -> tuple[bytes, bytes]:
    """Cut the trace, a worker's last member, out of a frame; the second is empty without one."""
    # Quotes inside a JSON string are escaped, so this only matches a real key.
    begin = frame.rfind(_TRACE) if frame.endswith(_TRACE_END) else -1
    return (frame, b"") if begin < 0 else (frame[:begin] + _END, frame[begin : -len(_END)])


def _text_in(envelope: Envelope, frame: bytes) -> str | None:
    before, after = envelope.before, envelope.after
    begin, end = len(before), len(frame) - len(after)
    if end < begin or not (frame.startswith(before) and frame.endswith(after)):
        return None
    try:
        return _STRING.decode(b'"' + frame[begin:end] + b'"')
    except ValueError:  # not one string, or not UTF-8
        return None


def _only_text(dialect: Dialect, frame: bytes) -> str | None:
    """The text of a frame that carries nothing else; None for every other frame."""
    try:
        event = msgspec.json.decode(data_of(frame))
    except NOT_JSON:
        return None
    if not isinstance(event, dict):
        return None
    if dialect is Dialect.RESPONSES:
        if (
            event_of(frame).decode("latin-1") != event.get("type")
            or event["type"] not in _RESPONSE_TEXTS
        ):
            return None
        return _lone_text(event, "delta", besides=_RESPONSE_POSITION)
    if dialect is Dialect.MESSAGES:
        if event.get("type") != "content_block_delta":
            return None
        delta = _lone_object(event, "delta", besides=frozenset(("type", "index")))
        key = {"text_delta": "text", "thinking_delta": "thinking"}.get(str(delta.get("type")))
        return None if key is None else _lone_text(delta, key, besides=frozenset(("type",)))
    choices = event.pop("choices", None)
    if _has_more(event, _COMMON) or not isinstance(choices, list) or len(choices) != 1:
        return None
    return _text_of_choice(dialect, choices[0])


def _text_of_choice(dialect: Dialect, choice: object) -> str | None:
    if not isinstance(choice, dict) or choice.pop("index", 0) != 0:
        return None
    if dialect is Dialect.COMPLETIONS:
        return _lone_text(choice, "text")
    delta = _lone_object(choice, "delta")
    present = [key for key, value in delta.items() if not _is_empty(value)]
    if len(present) != 1 or present[0] not in ("content", "reasoning", "reasoning_content"):
        return None
    return _lone_text(delta, present[0])


def _lone_text(
    holder: dict[str, Any], key: str, *, besides: frozenset[str] = frozenset()
) -> str | None:
    value = holder.get(key)
    return value if isinstance(value, str) and not _has_more(holder, besides | {key}) else None


def _lone_object(
    holder: dict[str, Any], key: str, *, besides: frozenset[str] = frozenset()
) -> dict[str, Any]:
    value = holder.get(key)
    return value if isinstance(value, dict) and not _has_more(holder, besides | {key}) else {}


def _has_more(holder: dict[str, Any], besides: frozenset[str]) -> bool:
    return any(key not in besides and not _is_empty(value) for key, value in holder.items())


def _is_empty(value: object) -> bool:
    return value is None or value == [] or value == ""
