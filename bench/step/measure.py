"""The alternating rounds: every part of a step, with every kernel, for every number of rows."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from bench.rounds import rotated
from bench.step.model import StepModel
from bench.step.plan import Plan
from bench.step.service import Service
from loadtest.progress import say

READ, PRODUCTS = "read", "products"
# vLLM's processes spin for a second after their last message (`SpinCondition`, vLLM 0.32).
_SETTLE_SECONDS = 1.5

Cell = Mapping[str, float]
"""Seconds by part, of one kernel and number of rows in one round."""


@dataclass(slots=True)
class StepFigures:
    """What was measured.

    Attributes:
        cells: By kernel and rows, a cell a round.
        http: By clients at once, the seconds of a step through HTTP, one a round.
        weight_bytes: By kernel, what `read` reads.
    """

    cells: dict[tuple[str, int], list[Cell]] = field(default_factory=dict)
    http: dict[int, list[float]] = field(default_factory=dict)
    weight_bytes: dict[str, int] = field(default_factory=dict)


def forward_of(context: int) -> str:
    """Name the part that is a forward pass after so many tokens."""
    return f"forward_{context}"


def measure(plan: Plan, models: Sequence[StepModel], service: Service) -> StepFigures:
    """Time all parts in turn; kernels, rows and parts begin with another one in each round."""
    for clients in plan.clients:
        service.step_seconds(clients)  # from now on its prompts are in the cache
    figures = StepFigures(weight_bytes={str(each.kernel): each.weight_bytes for each in models})
    for number in range(plan.rounds):
        for model in rotated(models, number):
            for rows in rotated(plan.rows, number):
                cell = _measure_cell(plan, model, rows, number)
                figures.cells.setdefault((str(model.kernel), rows), []).append(cell)
        time.sleep(_SETTLE_SECONDS)
        for clients in rotated(plan.clients, number):
            figures.http.setdefault(clients, []).append(service.step_seconds(clients))
        time.sleep(_SETTLE_SECONDS)
        say(f"round {number + 1}/{plan.rounds}")
    return figures


def _measure_cell(plan: Plan, model: StepModel, rows: int, number: int) -> Cell:
    parts: dict[str, Callable[[], object]] = {
        READ: model.read,
        PRODUCTS: partial(model.multiply, rows),
        **{forward_of(each): partial(model.forward, rows, each) for each in plan.contexts},
    }
    return {name: _time(parts[name], plan.seconds) for name in rotated(parts, number)}


def _time(part: Callable[[], object], seconds: float) -> float:
    """Return the median time of a call, in seconds, of as many as `seconds` have room for."""
    times: list[float] = []
    while not times or sum(times) < seconds:
        begin = time.perf_counter()
        part()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)
