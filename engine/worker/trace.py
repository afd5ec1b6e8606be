"""The origin of each token of a request that asks for it: who drafted it, and how much text it is.

The scheduler tells the API server which drafts a step accepted; vLLM has no field for that, so it
travels as a parameter of the output's KV transfer, which is passed on as it is. In the API server
the text of a token is known: `TokenTrace` puts both together (docs/adr/0042).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice, repeat
from typing import Any

from engine.drafting import TOKEN_SOURCE_NAMES, Origin

TARGET = "target"
"""A token that the target model sampled itself."""

Entry = tuple[str, int]
"""Source of a token, and how many code points of text it completes."""

_ASKED = "specgate_trace"
_ACCEPTED = "specgate_accepted"


def is_asked(arguments: Mapping[str, Any] | None) -> bool:
    """Tell whether a request asks for its trace.

    Args:
        arguments: `vllm_xargs` of its body, or `SamplingParams.extra_args`.
    """
    return arguments is not None and arguments.get(_ASKED) in (1, True)


def add_accepted(
    params: Mapping[str, Any] | None, origin: Origin, accepted: int
) -> Mapping[str, Any]:
    """Return the parameters of an output, with the sources of the tokens that its step accepted."""
    parts = [(code, count) for code, _, count in origin.split(accepted)]
    return {**(params or {}), _ACCEPTED: parts}


def take_accepted(
    params: Mapping[str, Any] | None,
) -> tuple[list[str], Mapping[str, Any] | None]:
    """Undo `add_accepted`: return the source of each accepted token, and the other parameters."""
    if params is None or _ACCEPTED not in params:
        return [], params
    sources = [TOKEN_SOURCE_NAMES[code] for code, count in params[_ACCEPTED] for _ in range(count)]
    others = {name: value for name, value in params.items() if name != _ACCEPTED}
    return sources, others or None


class TokenTrace:
    """The trace of one request: what its steps have brought and nobody has taken yet."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._decoded: list[int] = []
        self._length = 0

    def watch(self, decode: Callable[[int], str]) -> Callable[[int], str]:
        """Wrap the function that returns the text that a token completes; notes its length."""

        def decode_and_note(token: int) -> str:
            text = decode(token)
            self._decoded.append(len(text))
            return text

        return decode_and_note

    def add(self, tokens: int, accepted: Sequence[str]) -> None:
        """Take in a step.

        Args:
            tokens: How many tokens it brought. Those that were not decoded have no text.
            accepted: Sources of the first ones; the others are the target's.
        """
        sources: Iterable[str] = chain(accepted, repeat(TARGET))
        lengths: Iterable[int] = chain(self._decoded, repeat(0))
        step = list(islice(zip(sources, lengths, strict=False), tokens))
        self._decoded.clear()
        self._entries += step
        self._length += sum(length for _, length in step)

    def cut(self, length: int) -> None:
        """Shorten the last entries to a text of `length` code points, which a stop string cut.

        Entries that were taken stay as they were.
        """
        surplus = self._length - length
        for at in range(len(self._entries) - 1, -1, -1):
            if surplus <= 0:
                return
            source, own = self._entries[at]
            less = min(own, surplus)
            self._entries[at] = (source, own - less)
            self._length -= less
            surplus -= less

    def take(self) -> list[Entry]:
        """Return the entries since the last call."""
        taken, self._entries = self._entries, []
        return taken
