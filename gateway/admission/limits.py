"""A key's limits on requests per minute, tokens per minute and concurrent requests.

The arithmetic is here, and is pure. Where the state is kept is another matter: in this gateway
(`local_limits.py`) or in a store that all replicas share (`store_limits.py`).

A limit per minute is a leaky bucket whose state is one number, the *theoretical arrival time*: when
the bucket will be empty again. A minute's allowance may be used at once (the burst), then it
refills steadily. Source: ITU-T I.371, annex A (generic cell rate algorithm, virtual scheduling).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from gateway.admission.keys import Caller, KeyLimits
from gateway.errors import RateLimitError

PERIOD_SECONDS = 60.0
ROUNDING_SECONDS = 1e-6
"""Shorter waits are rounding errors: doubles resolve 1e-7 s on a clock that ran for years."""
_CONCURRENCY_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Standing:
    """How much of its limits a key has used.

    Attributes:
        requests_at: Theoretical arrival time of requests, seconds.
        tokens_at: Theoretical arrival time of tokens, on the same clock.
        running: Requests that run now.
    """

    requests_at: float
    tokens_at: float
    running: int


@dataclass(frozen=True, slots=True)
class Taken:
    """What a request took from its key's limits; settled when the request ends.

    Attributes:
        key_id: The key.
        limits: Its limits.
        estimated_tokens: Tokens that were taken.
        headers: `x-ratelimit-*` after that.
        lease: Name of the request in the store; None: its state is in this gateway.
    """

    key_id: str
    limits: KeyLimits
    estimated_tokens: int
    headers: Sequence[tuple[bytes, bytes]]
    lease: str | None = None


class LimitExceededError(RateLimitError):
    """A `RateLimitError` with the headers that show which limit was reached."""

    def __init__(
        self, message: str, *, retry_after_seconds: float, rate_headers: dict[str, str]
    ) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self._rate_headers = rate_headers

    @property
    def headers(self) -> dict[str, str]:
        """`Retry-After` and OpenAI's `x-ratelimit-*`."""
        return {**super().headers, **self._rate_headers}


class Limits(Protocol):
    """Applies the limits of keys; callers pass the time, in monotonic seconds."""

    def peek(self, caller: Caller, *, now: float) -> None:
        """Refuse a request that `take` would refuse however small it is; takes nothing.

        Raises:
            LimitExceededError: A limit is reached.
        """

    async def take(self, caller: Caller, *, estimated_tokens: int, now: float) -> Taken | None:
        """Take one request and its estimated tokens, all or nothing.

        An estimate takes one minute's allowance at most, so that a very large `max_tokens` does not
        block a key for hours. The tokens that the worker counts are taken in full.

        Returns:
            What was taken; None for a caller without a key or without limits.

        Raises:
            LimitExceededError: A limit is reached; nothing was taken.
        """

    def settle(self, took: Taken, *, used_tokens: int | None, now: float) -> None:
        """End a request: correct the token estimate and count it as no longer running.

        Args:
            took: From `take`; may be settled once.
            used_tokens: The worker's count; None if it sent none: the estimate is used.
            now: Monotonic seconds.
        """


def has_limits(caller: Caller) -> bool:
    """Whether there is anything to count for this caller."""
    return caller.key_id is not None and caller.limits != KeyLimits()


def capped(limits: KeyLimits, estimated_tokens: int) -> int:
    """The tokens that an estimate takes, one minute's allowance at most."""
    most = limits.tokens_per_minute
    return estimated_tokens if most is None else min(estimated_tokens, most)


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
    return wait if wait > ROUNDING_SECONDS else 0.0


def taken(arrival: float, *, now: float, limit: int, units: float) -> float:
    """The state after `units` were taken (or, if negative, given back)."""
    return max(max(arrival, now) + units * PERIOD_SECONDS / limit, now)


def refusal(
    limits: KeyLimits, standing: Standing, *, tokens: int, now: float
) -> LimitExceededError | None:
    """Why one more request that takes `tokens` is refused; None if it is not."""
    most = limits.concurrent_requests
    if most is not None and standing.running >= most:
        return LimitExceededError(
            f"This key may run {most} requests at a time.",
            retry_after_seconds=_CONCURRENCY_RETRY_SECONDS,
            rate_headers=rate_headers(limits, standing, now=now),
        )
    for (what, limit, arrival), units in zip(_rates(limits, standing), (1, tokens), strict=True):
        if limit is None:
            continue
        wait = wait_seconds(arrival, now=now, limit=limit, units=units)
        if wait > 0:
            return LimitExceededError(
                f"This key may use {limit} {what} a minute.",
                retry_after_seconds=wait,
                rate_headers=rate_headers(limits, standing, now=now),
            )
    return None


def charged(
    limits: KeyLimits, standing: Standing, *, requests: int, tokens: int, now: float
) -> Standing:
    """The standing after requests and tokens were taken (or, if negative, given back)."""
    if limits.requests_per_minute is not None:
        at = taken(standing.requests_at, now=now, limit=limits.requests_per_minute, units=requests)
        standing = replace(standing, requests_at=at)
    if limits.tokens_per_minute is not None:
        at = taken(standing.tokens_at, now=now, limit=limits.tokens_per_minute, units=tokens)
        standing = replace(standing, tokens_at=at)
    return standing


def rate_headers(limits: KeyLimits, standing: Standing, *, now: float) -> dict[str, str]:
    """OpenAI's `x-ratelimit-*` of the limits that a key has."""
    headers: dict[str, str] = {}
    for what, limit, arrival in _rates(limits, standing):
        if limit is not None:
            used_seconds = max(0.0, arrival - now)
            free_seconds = max(0.0, PERIOD_SECONDS - used_seconds + ROUNDING_SECONDS)
            remaining = min(limit, int(limit * free_seconds / PERIOD_SECONDS))
            headers[f"x-ratelimit-limit-{what}"] = str(limit)
            headers[f"x-ratelimit-remaining-{what}"] = str(remaining)
            headers[f"x-ratelimit-reset-{what}"] = _duration(used_seconds)
    return headers


def raw_headers(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    """The same headers as bytes."""
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def _rates(limits: KeyLimits, standing: Standing) -> Iterator[tuple[str, int | None, float]]:
    yield "requests", limits.requests_per_minute, standing.requests_at
    yield "tokens", limits.tokens_per_minute, standing.tokens_at


def _duration(seconds: float) -> str:
    """OpenAI's notation: `6m0s`, `1.5s`, `20ms`. Source: OpenAI API docs, "Rate limits"."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds, 1), 60)
    return f"{int(minutes)}m{rest:g}s" if minutes else f"{rest:g}s"
