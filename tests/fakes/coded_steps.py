"""Sources in the upper bits of vLLM's `per_step_drafted`, as our worker writes them (ADR 13)."""

from collections.abc import Iterable
from typing import Literal

Part = Literal["suffix", "head", "native", "prediction"]

_CODES: dict[Part, int] = {"suffix": 1, "head": 2, "native": 3, "prediction": 4}


def coded_step(drafted: int, first: Part, second: Part | None = None, *, border: int = 0) -> int:
    """One step of `per_step_drafted`.

    Args:
        drafted: Tokens of the whole draft.
        first: Source of the tokens before `border`, or of all.
        second: Source of the others.
        border: Tokens of the first part, if there is a second one.
    """
    code = drafted | _CODES[first] << 16
    return code if second is None else code | _CODES[second] << 20 | border << 24


def plain_tokens(steps: Iterable[int]) -> int:
    """Tokens of all steps."""
    return sum(step & 0xFFFF for step in steps)
