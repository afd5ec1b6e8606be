"""How much is measured: prompts of each kind, rounds, and how long answers may get."""

import math
from dataclasses import dataclass

from bench.engine import plan as engine_plan

KINDS = ("chat", "code", "math")
POSITIONS = 3
"""Tokens of each draft where acceptance and cost are measured."""


@dataclass(frozen=True, slots=True)
class HeadPlan:
    """Sizes of a run.

    Attributes:
        requests: How long answers may get.
        prompts: Most prompts of each kind for acceptance, on which the rounds have no bearing.
        clients: Of the acceptance part; how many there are does not change what is accepted.
        rounds: At batch 1, for cost and speed; each with other prompts.
        prompts_a_round: Most chat prompts that every worker answers in a round.
        seconds: After these no kind and no round is begun.
    """

    requests: engine_plan.Plan
    prompts: int
    clients: int
    rounds: int
    prompts_a_round: int
    seconds: float = math.inf


FULL = HeadPlan(engine_plan.FULL, prompts=160, clients=8, rounds=5, prompts_a_round=4)
"""About 12 minutes on two idle cores (estimated)."""
QUICK = HeadPlan(
    engine_plan.QUICK, prompts=12, clients=8, rounds=3, prompts_a_round=2, seconds=150.0
)
