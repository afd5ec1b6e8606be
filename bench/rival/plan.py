"""How much is measured."""

import math
from dataclasses import dataclass

KINDS = ("chat", "creative", "math", "code", "edit")


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of a run.

    Attributes:
        prompts: Of each kind, at most.
        answer_tokens: `max_tokens`.
        seconds: After this time no prompt is sent.
    """

    prompts: int
    answer_tokens: int = 128
    seconds: float = math.inf


FULL = Plan(prompts=12)
"""Some 10 minutes with the default profile on two cores with AVX2, without the build."""
QUICK = Plan(prompts=2, answer_tokens=64, seconds=120.0)
