"""A frame whose only message is some text: take it apart, and word parts of that text as frames.

What a frame is like around its text is learnt once and then compared, since it is the same from
one frame to the next. A frame that says anything else (a role, a tool call, log probabilities,
token ids, a finish, a second choice, a member that we do not know) is not read: it stays whole.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gateway.errors import InvalidRequestError
from gateway.protocol.endpoints import Dialect
from gateway.protocol.json_object import parse_object
from gateway.protocol.sse import data_of, event_of
from gateway.protocol.usage import cut_running_usage

_LITERAL = rb'":\s*"((?:[^"\\]|\\.)*)"'
# A quote within a string is escaped, so these keys are found only where they are one.
_KEYS = {
    Dialect.CHAT: re.compile(rb'"(?:content|reasoning|reasoning_content)' + _LITERAL),
    Dialect.COMPLETIONS: re.compile(rb'"text' + _LITERAL),
    Dialect.RESPONSES: re.compile(rb'"delta' + _LITERAL),
    Dialect.MESSAGES: re.compile(rb'"(?:text|thinking)' + _LITERAL),
}
_NUMBER = re.compile(rb'(?<="sequence_number":)( *)(\d+)')
_encode = json.JSONEncoder(ensure_ascii=False).encode
_PROBE = "a text that no model writes \u0007"
_COMMON = frozenset(("id", "object", "created", "model", "system_fingerprint", "service_tier"))
_RESPONSE_TEXTS = frozenset(
    f"response.{kind}.delta"
    for kind in ("output_text", "reasoning_text", "reasoning_summary_text", "refusal")
)
_RESPONSE_PLACE = frozenset(
    ("type", "item_id", "output_index", "content_index", "summary_index", "sequence_number")
)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A frame around its text.

    Attributes:
        before: Its bytes up to the text.
        after: Its bytes behind the text.
        after_part: The same for a part of the text that is not the last: without token counts,
            which tell of the whole.
    """

    before: bytes
    after: bytes
    after_part: bytes


class TextChunk(NamedTuple):
    """A frame taken apart.

    Attributes:
        frame: As it came.
        text: What it adds to the answer, without lone surrogates.
        number: Its place among the events of a `/v1/responses` stream; None elsewhere.
    """

    envelope: Envelope
    frame: bytes
    text: str
    number: int | None = None


class Part(NamedTuple):
    """Some text of a chunk; its parts come in order and together are its text."""

    chunk: TextChunk
    text: str
    is_last: bool


class TextChunks:
    """Takes apart the text frames of one stream, and numbers what it is cut into.

    Attributes:
        more_events: How many events the client got beyond those of the worker, where they have
            numbers.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._known: Envelope | None = None
        self.more_events = 0

    def read(self, frame: bytes) -> TextChunk | None:
        """Take a frame apart; None if it has to stay whole."""
        number, whole = None, frame
        if self._dialect is Dialect.RESPONSES:
            if (found := _NUMBER.search(frame)) is None:
                return None
            number = int(found.group(2))
            frame = frame[: found.start(2)] + b"0" + frame[found.end() :]
        if self._known is not None and (text := _text_in(self._known, frame)) is not None:
            return TextChunk(self._known, whole, text, number)
        self._known = self._learn(frame)
        if self._known is None or (text := _text_in(self._known, frame)) is None:
            return None
        return TextChunk(self._known, whole, text, number)

    def frames(self, parts: Sequence[Part]) -> bytes:
        """Word parts as frames, in order: neighbours of one chunk as one, never two chunks."""
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
        """A frame that stayed whole, behind events of which there are more now."""
        if not self.more_events:
            return frame
        data = data_of(frame)
        try:
            event = parse_object(data)
        except InvalidRequestError:  # a comment, or nothing that we could number
            return frame
        number = event.get("sequence_number")
        if not isinstance(number, int):
            return frame
        edited = event.edited({"sequence_number": str(number + self.more_events)})
        return frame.replace(data, edited.encode())

    def _frame(self, last: Part, texts: list[str]) -> bytes:
        """The frame of parts that end with `last`."""
        envelope, number = last.chunk.envelope, last.chunk.number
        if last.text is last.chunk.text and not self.more_events:
            return last.chunk.frame  # nobody cut it
        text = _encode("".join(texts))[1:-1].encode()
        frame = envelope.before + text + (envelope.after if last.is_last else envelope.after_part)
        if number is not None:
            frame = _NUMBER.sub(rb"\g<1>%d" % (number + self.more_events), frame, count=1)
            self.more_events += not last.is_last
        return frame

    def _learn(self, frame: bytes) -> Envelope | None:
        """What `frame` is like around its text, proved by putting another text there."""
        keys = _KEYS.get(self._dialect)
        for found in () if keys is None else keys.finditer(frame):
            before, after = frame[: found.start(1)], frame[found.end(1) :]
            part, _ = cut_running_usage(after)
            probe = before + json.dumps(_PROBE)[1:-1].encode() + part
            if _only_text(self._dialect, probe) == _PROBE:
                return Envelope(before, after, part)
        return None


def _text_in(envelope: Envelope, frame: bytes) -> str | None:
    before, after = envelope.before, envelope.after
    begin, end = len(before), len(frame) - len(after)
    if end < begin or not (frame.startswith(before) and frame.endswith(after)):
        return None
    literal = frame[begin:end]
    try:
        if b"\\" not in literal and b'"' not in literal:
            return literal.decode()  # most need no parsing
        text: str = json.loads(b'"' + literal + b'"')
        text.encode()
    except ValueError:  # no single string, or half of a surrogate pair
        return None
    return text


def _only_text(dialect: Dialect, frame: bytes) -> str | None:
    """The text of a frame that has nothing else to say; None for every other frame."""
    try:
        event = json.loads(data_of(frame))
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    if dialect is Dialect.RESPONSES:
        if event_of(frame).decode() != event.get("type") or event["type"] not in _RESPONSE_TEXTS:
            return None
        return _lone_text(event, "delta", besides=_RESPONSE_PLACE)
    if dialect is Dialect.MESSAGES:
        if event.get("type") != "content_block_delta":
            return None
        delta = _lone_object(event, "delta", besides=frozenset(("type", "index")))
        key = {"text_delta": "text", "thinking_delta": "thinking"}.get(str(delta.get("type")))
        return None if key is None else _lone_text(delta, key, besides=frozenset(("type",)))
    choices = event.pop("choices", None)
    if _says_more(event, _COMMON) or not isinstance(choices, list) or len(choices) != 1:
        return None
    return _text_of_choice(dialect, choices[0])


def _text_of_choice(dialect: Dialect, choice: object) -> str | None:
    if not isinstance(choice, dict) or choice.pop("index", 0) != 0:
        return None
    if dialect is Dialect.COMPLETIONS:
        return _lone_text(choice, "text")
    delta = _lone_object(choice, "delta")
    said = [key for key, value in delta.items() if not _is_nothing(value)]
    if len(said) != 1 or said[0] not in ("content", "reasoning", "reasoning_content"):
        return None
    return _lone_text(delta, said[0])


def _lone_text(
    holder: dict[str, Any], key: str, *, besides: frozenset[str] = frozenset()
) -> str | None:
    value = holder.get(key)
    return value if isinstance(value, str) and not _says_more(holder, besides | {key}) else None


def _lone_object(
    holder: dict[str, Any], key: str, *, besides: frozenset[str] = frozenset()
) -> dict[str, Any]:
    value = holder.get(key)
    return value if isinstance(value, dict) and not _says_more(holder, besides | {key}) else {}


def _says_more(holder: dict[str, Any], besides: frozenset[str]) -> bool:
    return any(key not in besides and not _is_nothing(value) for key, value in holder.items())


def _is_nothing(value: object) -> bool:
    return value is None or value == [] or value == ""
