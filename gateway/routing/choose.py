"""Power of two choices, with slow start for a worker that has recovered."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from gateway.types import WorkerId

_SLOW_START_FLOOR = 0.1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker that can take a request.

    Attributes:
        worker: Its name.
        in_flight: Requests it is running for this gateway process.
        weight: Share of the usual load that it should get, > 0 and at most 1.
    """

    worker: WorkerId
    in_flight: int
    weight: float = 1.0


def choose(candidates: Sequence[Candidate], random: Random) -> WorkerId:
    """Pick the less loaded of two candidates drawn at random.

    Load is (in_flight + 1) / weight, counting this request: a worker of weight 0.1 is passed over
    until the others have ten times its load.

    Args:
        candidates: At least one.
        random: Source of the draw. Ties go to the first one drawn.

    Source: Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing" (2001).
    """
    if len(candidates) == 1:
        return candidates[0].worker
    first, second = random.sample(candidates, 2)
    return second.worker if _load(second) < _load(first) else first.worker


def slow_start_weight(seconds_up: float, *, ramp_seconds: float) -> float:
    """Weight of a worker that came up `seconds_up` ago: rises linearly from 0.1 to 1."""
    if ramp_seconds <= 0 or seconds_up >= ramp_seconds:
        return 1.0
    return max(_SLOW_START_FLOOR, seconds_up / ramp_seconds)


def _load(candidate: Candidate) -> float:
    return (candidate.in_flight + 1) / candidate.weight
