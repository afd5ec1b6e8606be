"""Least loaded of two random choices, with slow start for a worker that has just come back."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from gateway.types import WorkerId

_SLOW_START_FLOOR = 0.1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker that may be given a request.

    Attributes:
        worker: Its name.
        in_flight: Requests it is running for this gateway.
        weight: Share of the load it should carry, > 0 and at most 1.
    """

    worker: WorkerId
    in_flight: int
    weight: float = 1.0


def choose(candidates: Sequence[Candidate], random: Random) -> WorkerId:
    """Pick the less loaded of two candidates drawn at random.

    Load is (in_flight + 1) / weight: what the worker would carry with this request, so that a
    worker of weight 0.1 is passed over until the others carry ten times as much.

    Args:
        candidates: At least one.
        random: Source of the draw; ties go to the first drawn, hence to either.

    Source: Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing" (2001).
    """
    if len(candidates) == 1:
        return candidates[0].worker
    first, second = random.sample(candidates, 2)
    return second.worker if _load(second) < _load(first) else first.worker


def slow_start_weight(seconds_up: float, *, ramp_seconds: float) -> float:
    """Weight of a worker that came up `seconds_up` ago: from 0.1, in a straight line, to 1."""
    if ramp_seconds <= 0 or seconds_up >= ramp_seconds:
        return 1.0
    return max(_SLOW_START_FLOOR, seconds_up / ramp_seconds)


def _load(candidate: Candidate) -> float:
    return (candidate.in_flight + 1) / candidate.weight
