"""Limits per minute, as a leaky bucket whose state is one number: the GCRA.

State is the *theoretical arrival time* in monotonic seconds: when the bucket will be empty
again. A minute's allowance may be used at once (the burst), then it refills steadily.
Source: ITU-T I.371, annex A (generic cell rate algorithm, virtual scheduling).
"""

from dataclasses import dataclass

PERIOD_SECONDS = 60.0
_ROUNDING_SECONDS = 1e-6
"""Shorter waits are rounding errors: doubles resolve 1e-7 s on a clock that ran for years."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How much of a limit is left.

    Attributes:
        limit: Units per minute.
        remaining: Units that could be taken now, >= 0.
        reset_seconds: Time until the whole allowance is available again.
    """

    limit: int
    remaining: int
    reset_seconds: float


def wait_seconds(arrival: float, *, now: float, limit: int, units: float) -> float:
    """Seconds until `units` may be taken; 0 when they may be taken now.

    More units than the limit count as the limit: a large request passes when the bucket is empty,
    and the next one has to wait for the rest.

    Args:
        arrival: Theoretical arrival time (state), monotonic seconds.
        now: Monotonic seconds.
        limit: Units per minute, > 0.
        units: Units requested, >= 0.
    """
    cost = min(units, limit) * PERIOD_SECONDS / limit
    wait = max(arrival, now) + cost - now - PERIOD_SECONDS
    return wait if wait > _ROUNDING_SECONDS else 0.0


def taken(arrival: float, *, now: float, limit: int, units: float) -> float:
    """The state after `units` were taken (or, if negative, given back)."""
    return max(max(arrival, now) + units * PERIOD_SECONDS / limit, now)


def reading(arrival: float, *, now: float, limit: int) -> Reading:
    """The values of OpenAI's `x-ratelimit-*` headers."""
    used_seconds = max(0.0, arrival - now)
    free_seconds = max(0.0, PERIOD_SECONDS - used_seconds + _ROUNDING_SECONDS)
    remaining = min(limit, int(limit * free_seconds / PERIOD_SECONDS))
    return Reading(limit=limit, remaining=remaining, reset_seconds=used_seconds)
