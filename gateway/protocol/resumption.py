"""What a client has of a streamed answer, and how another worker goes on with it (ADR 48).

Our workers put the ids of an answer's tokens into its chunks. The next worker gets them with the
request, computes what follows, and sends the whole answer again, its beginning at once: `Seam` cuts
what the client has. The client never sees the ids.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from gateway.errors import UpstreamError, WorkerLostError
from gateway.protocol.json_object import NOT_JSON
from gateway.protocol.sse import data_frame, data_of

_KEY = b',"specgate_ids":['
_IDS = re.compile(re.escape(_KEY) + rb"(\d{1,9}(?:, ?\d{1,9})*)\]")
_MOST_BYTES = 2**23
"""Of ids that are kept, far above what a model can write; an answer beyond it is not resumed."""
_CREATED = re.compile(rb'"created":\d+')
_REASONING = ("reasoning", "reasoning_content")
_ABORTED = "abort"
"""Finish reason of what vLLM ends itself, such as at the end of its shutdown timeout."""


Call = tuple[str, str]
"""Name and arguments of a tool call, as far as they have come."""


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    tool_calls: tuple[_Call, ...] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: dict[str, Any] | None = None


class _Chunk(msgspec.Struct):
    choices: tuple[_Choice, ...] = ()
    specgate_ids: tuple[int, ...] = ()


_decode = msgspec.json.Decoder(_Chunk).decode


class Progress:
    """How far the stream of one answer has come; it may go on behind that of another worker.

    Attributes:
        text: Characters of text that the client has.
        reasoning: Characters of reasoning that the client has.
        calls: Tool calls that the client has, each as its name and arguments so far.
        has_text_end: The chunk with the finish reason has come.
        created: The member `created` of the client's chunks; empty before the first one.
        is_known: Every frame could be read, so `text`, `reasoning` and `calls` are all there is.
    """

    def __init__(self, before: "Progress | None" = None) -> None:
        self.text: int = 0 if before is None else before.text
        self.reasoning: int = 0 if before is None else before.reasoning
        self.calls: dict[int, Call] = {} if before is None else dict(before.calls)
        self.created: bytes = b"" if before is None else before.created
        self.has_text_end = False
        self._ids: list[bytes] = []
        self._bytes = 0
        self.is_known = True
        self._theirs: bytes | None = None

    @property
    def tokens(self) -> list[int]:
        """The ids of the answer's tokens so far; none if the worker does not send them."""
        return [int(token) for ids in self._ids for token in ids.split(b",")]

    @property
    def can_go_on(self) -> bool:
        """Whether another worker can go on: it gets the ids, or there is no text yet."""
        has_none = not (self.text or self.reasoning or self.calls)
        return self.is_known and (bool(self._ids) or has_none)

    def take(self, frame: bytes) -> bytes:
        """Read a frame for the client; return it as the client gets it.

        Raises:
            WorkerLostError: The worker gives the answer up, as vLLM does that has to leave.
        """
        at = frame.rfind(_KEY)
        if at >= 0 and (found := _IDS.match(frame, at)) is not None:
            self._keep(found[1])
            frame = frame[:at] + frame[found.end() :]
        if not frame.startswith(b"data: {"):
            return frame
        frame = self._dated(frame)
        try:
            chunk = _decode(frame[6:])
        except NOT_JSON:
            self.is_known = False
            return frame
        for choice in chunk.choices:
            if choice.finish_reason == _ABORTED:
                raise WorkerLostError("The engine gave the answer up.", sent=True)
            self._count(choice)
        return frame

    def _keep(self, ids: bytes) -> None:
        self._ids.append(ids)
        self._bytes += len(ids)
        if self._bytes > _MOST_BYTES:
            self._ids.clear()
            self.is_known = False

    def _count(self, choice: _Choice) -> None:
        if choice.text:
            self.text += len(choice.text)
        elif (delta := choice.delta) is not None:
            if delta.content:
                self.text += len(delta.content)
            if more := delta.reasoning or delta.reasoning_content:
                self.reasoning += len(more)
            for call in delta.tool_calls or ():
                new = call.function or _Function()
                name, arguments = self.calls.get(call.index, ("", ""))
                self.calls[call.index] = name + (new.name or ""), arguments + (new.arguments or "")
        if choice.finish_reason is not None:
            self.has_text_end = True

    def _dated(self, frame: bytes) -> bytes:
        """Give a frame of the next worker the date of the first one's."""
        if self._theirs is None:
            found = _CREATED.search(frame)
            self._theirs = b"" if found is None else found[0]
            self.created = self.created or self._theirs
        if self._theirs == self.created:
            return frame
        return frame.replace(self._theirs, self.created, 1)


class Seam:
    """Cuts what a client has from the beginning of the answer of the next worker."""

    def __init__(self, before: Progress) -> None:
        self._tokens = before.tokens
        self._text = before.text
        self._reasoning = before.reasoning
        self._calls = {at: call for at, call in before.calls.items() if any(call)}
        self._is_joined = not self._tokens

    @property
    def is_behind(self) -> bool:
        """Whether all that the client has was cut."""
        return self._is_joined and not (self._text or self._reasoning or self._calls)

    def cut(self, frame: bytes) -> bytes | None:
        """Return a frame without what the client has; None if nothing is left.

        Raises:
            UpstreamError: The worker does not go on behind these tokens, or a chunk is malformed.
        """
        data = data_of(frame)
        if not data.startswith(b"{"):
            return frame  # a comment, or the end
        try:
            shape = _decode(data)
            if len(shape.choices) != 1:
                return frame  # an error, or usage
            chunk: dict[str, Any] = msgspec.json.decode(data)
        except NOT_JSON as error:
            raise UpstreamError("The engine sent a malformed chunk.") from error
        choice = chunk["choices"][0]
        delta = choice if shape.choices[0].delta is None else choice["delta"]
        is_first = not self._is_joined and bool(shape.specgate_ids)
        if is_first:
            self._join(shape.specgate_ids, choice.get("logprobs"))
        self._cut_delta(delta)
        is_end = choice.get("finish_reason") is not None
        if is_end and self._calls:
            raise _otherwise()
        is_empty = not any(
            delta.get(name) for name in ("content", "text", "tool_calls", *_REASONING)
        )
        if is_empty and not is_end and not is_first:
            return None
        return data_frame(msgspec.json.encode(chunk))

    def _cut_delta(self, delta: dict[str, Any]) -> None:
        delta.pop("role", None)
        for name in ("content", "text"):
            self._text = _cut(delta, name, self._text)
        for name in _REASONING:
            self._reasoning = _cut(delta, name, self._reasoning)
        if self._calls and delta.get("tool_calls"):
            left = [call for call in delta.pop("tool_calls") if self._cut_call(call)]
            if left:
                delta["tool_calls"] = left

    def _cut_call(self, call: dict[str, Any]) -> bool:
        """Cut a piece of a tool call in place; return whether anything is left of it.

        A parser may read a long beginning otherwise than the same in pieces, so it is compared.
        """
        if min(self._calls, default=call["index"]) < call["index"]:
            raise _otherwise()  # it passed over one that the client has
        known = self._calls.pop(call["index"], None)
        if known is None:
            return True
        call.pop("id", None)
        call.pop("type", None)
        function = call["function"] = call.get("function") or {}
        missing = []
        for name, expected in zip(("name", "arguments"), known, strict=True):
            text = function.pop(name, None) or ""
            both = min(len(text), len(expected))
            if text[:both] != expected[:both]:
                raise _otherwise()
            missing.append(expected[both:])
            if text[both:]:
                function[name] = text[both:]
        if any(missing):
            name, arguments = missing
            self._calls[call["index"]] = name, arguments
        return bool(function)

    def _join(self, ids: Sequence[int], logprobs: dict[str, Any] | None) -> None:
        known = len(self._tokens)
        if list(ids[:known]) != self._tokens:
            raise UpstreamError("The engine did not go on with the answer.")
        self._is_joined = True
        if logprobs is not None:
            own = {
                name: entries[known:]
                for name, entries in logprobs.items()
                if isinstance(entries, list)
            }
            logprobs.update(own)


def _otherwise() -> UpstreamError:
    return UpstreamError("The engine did not go on with the tool call.")


def _cut(delta: dict[str, Any], name: str, characters: int) -> int:
    """Cut a text in place; return how many characters are left to cut."""
    text = delta.get(name)
    if not text or not characters:
        return characters
    delta[name] = text[characters:]
    return max(0, characters - len(text))
