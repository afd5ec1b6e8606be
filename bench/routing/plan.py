"""What is simulated: sizes of the fleet, what happens to it, replicas, rules."""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.routing.fleet import Change, Scenario
from bench.routing.rules import OTHERS

OURS, ORACLE = "expected_time", "oracle"
RULES = (*(name for name in OTHERS if name != ORACLE), OURS)
REPLICAS = (1, 4)
SCENARIOS = ("steady", "slow", "lost", "rolling")
REQUESTS_PER_SECOND = 2.4
"""For each worker: 60 % of what the oracle serves within the objectives."""
FIRST_SECONDS, TOKEN_SECONDS = 3.0, 0.05
"""The objectives of a request: time to its first token, and time of each token after that."""
_LARGE = 256
"""Only with several replicas, since it takes long."""
WARM_UP = 1 / 3
"""Share of a run that is not counted: all caches are empty at its start."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: one rule on one fleet."""

    workers: int
    scenario: str
    replicas: int
    rule: str
    seconds: float
    seed: int


def plan(*, quick: bool) -> Iterator[Cell]:
    """All runs, the longest first."""
    sizes = {256: 30.0, 16: 60.0, 4: 60.0} if quick else {256: 60.0, 64: 90.0, 16: 120.0, 4: 240.0}
    for workers, seconds in sizes.items():
        for scenario in ("steady", "lost") if quick else SCENARIOS:
            yield Cell(workers, scenario, 1, ORACLE, seconds, 1)
            for replicas in (4,) if workers == _LARGE else REPLICAS:
                for rule in RULES:
                    yield Cell(workers, scenario, replicas, rule, seconds, 1)


def scenario_of(cell: Cell) -> Scenario:
    """What happens to the workers.

    Returns:
        steady: nothing. slow: the first worker takes twice the time. lost: the first worker is
        lost, and comes back after 20 s. rolling: half of the workers are restarted one after the
        other, each drained for four seconds before.
    """
    seconds = cell.seconds
    match cell.scenario:
        case "slow":
            return Scenario({0: 2.0})
        case "lost":
            at = seconds / 2
            return Scenario(changes=(Change(at, 0, "lost"), Change(at + 20, 0, "up")))
        case "rolling":
            restarted = cell.workers // 2
            begins = [
                (worker, seconds * (0.35 + 0.5 * worker / restarted)) for worker in range(restarted)
            ]
            return Scenario(
                changes=tuple(
                    change
                    for worker, at in begins
                    for change in (
                        Change(at, worker, "drain"),
                        Change(at + 4, worker, "lost"),
                        Change(at + 5, worker, "up"),
                    )
                )
            )
        case _:
            return Scenario()
