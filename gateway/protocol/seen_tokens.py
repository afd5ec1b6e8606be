"""Reads the tokens of an answer and their sources as it passes, for the canary (ADR 45).

The gateway asked for both. Unless the client did so too, they are cut out: the client gets the
bytes that it would have got. Quotes inside a JSON string are escaped, so the patterns only match
real keys.
"""

import re
from dataclasses import dataclass
from typing import TypeVar

import msgspec

T = TypeVar("T")

_IDS = re.compile(rb'"(prompt_)?token_ids":(\[[\d, ]*\])')
_TRACE = re.compile(rb',"speculation":\{"trace":(\[\[.*?\]\])\}')
_ONLY_IDS = b'"delta":{},"logprobs":null,"finish_reason":null'
"""In a chunk that vLLM sends for its token ids alone: a parser has withheld the text."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What is read of an answer.

    Attributes:
        most_tokens: Tokens that are kept, those after them are not.
        wants_ids: The client asked for token ids.
        wants_trace: The client asked for the trace.
    """

    most_tokens: int
    wants_ids: bool = False
    wants_trace: bool = False


class SeenTokens:
    """The first tokens of one answer.

    Attributes:
        ids: Their ids, in order.
        sources: Their sources, as in the trace; shorter than `ids` if the worker sent none.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.ids: list[int] = []
        self.sources: list[str] = []

    def take(self, text: bytes) -> bytes:
        """Read a frame or a whole answer; returns it as the client gets it, empty for nothing."""
        watch = self._watch
        for found in _TRACE.finditer(text):
            self._keep(self.sources, [source for source, _ in msgspec.json.decode(found[1])])
        for found in _IDS.finditer(text):
            if found[1] is None:
                self._keep(self.ids, msgspec.json.decode(found[2]))
        if not watch.wants_trace:
            text = _TRACE.sub(b"", text)
        if not watch.wants_ids:
            text = _IDS.sub(rb'"\1token_ids":null', text)
        if _ONLY_IDS in text and not (watch.wants_ids or watch.wants_trace):
            return b""
        return text

    def _keep(self, kept: list[T], new: list[T]) -> None:
        kept += new[: self._watch.most_tokens - len(kept)]
