"""Limits a minute, as a leaky bucket that needs one number: the generic cell rate algorithm.

State is the *theoretical arrival time* in monotonic seconds: when the bucket will be empty
again. A minute's allowance may be used at once (the burst), then it refills steadily.
Source: ITU-T I.371, annex A (GCRA, virtual scheduling).
"""

from dataclasses import dataclass

PERIOD_SECONDS = 60.0
_ROUNDING_SECONDS = 1e-6
"""Less than this is no wait but the error of adding up doubles; a clock of years has 1e-7."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How much of a limit is left.

    Attributes:
        limit: Units a minute.
        remaining: Units that could be taken now, >= 0.
        reset_seconds: Until the whole allowance is there again.
    """

    limit: int
    remaining: int
    reset_seconds: float


def wait_seconds(arrival: float, *, now: float, limit: int, units: float) -> float:
    """Seconds until `units` may be taken; 0 when they may be taken now.

    More units than the limit itself can never fit: they count as the limit, so that one big
    request passes when the bucket is empty and is paid back before the next.

    Args:
        arrival: Theoretical arrival time (state), monotonic seconds.
        now: Monotonic seconds.
        limit: Units a minute, > 0.
        units: Units asked for, >= 0.
    """
    cost = min(units, limit) * PERIOD_SECONDS / limit
    wait = max(arrival, now) + cost - now - PERIOD_SECONDS
    return wait if wait > _ROUNDING_SECONDS else 0.0


def taken(arrival: float, *, now: float, limit: int, units: float) -> float:
    """The state after `units` were taken (or, if negative, given back)."""
    return max(max(arrival, now) + units * PERIOD_SECONDS / limit, now)


def reading(arrival: float, *, now: float, limit: int) -> Reading:
    """The state as the numbers that OpenAI's `x-ratelimit-*` headers carry."""
    used_seconds = max(0.0, arrival - now)
    free_seconds = max(0.0, PERIOD_SECONDS - used_seconds + _ROUNDING_SECONDS)
    remaining = min(limit, int(limit * free_seconds / PERIOD_SECONDS))
    return Reading(limit=limit, remaining=remaining, reset_seconds=used_seconds)
