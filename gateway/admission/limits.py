"""A key's limits on requests per minute, tokens per minute and concurrent requests."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.admission.keys import Caller, KeyLimits
from gateway.admission.ledger import Account, Ledger
from gateway.admission.rate_limit import Reading, reading, taken, wait_seconds
from gateway.errors import RateLimitError

_CONCURRENCY_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Taken:
    """What a request took from its key's limits; settled when the request ends."""

    key_id: str
    limits: KeyLimits
    estimated_tokens: int
    headers: Sequence[tuple[bytes, bytes]]
    """`x-ratelimit-*` after it was taken."""


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


class Limits:
    """Applies the limits of keys to the state in a ledger; callers pass the time."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def peek(self, caller: Caller, *, now: float) -> None:
        """Refuse a request that `take` would refuse, however small; takes nothing.

        Raises:
            LimitExceededError: A limit is reached.
        """
        if caller.key_id is not None and caller.limits != KeyLimits():
            with self._ledger.account(caller.key_id) as account:
                self._refuse_if_over(account, caller.limits, tokens=1, now=now)

    async def take(self, caller: Caller, *, estimated_tokens: int, now: float) -> Taken | None:
        """Take one request and its estimated tokens, all or nothing.

        An estimate takes one minute's allowance at most, so that a very large `max_tokens` does not
        block a key for hours. The tokens that the worker counts are taken in full.

        Returns:
            What was taken; None for a caller without a key or without limits.

        Raises:
            LimitExceededError: A limit is reached; nothing was taken.
        """
        limits = caller.limits
        if caller.key_id is None or limits == KeyLimits():
            return None
        if limits.tokens_per_minute is not None:
            estimated_tokens = min(estimated_tokens, limits.tokens_per_minute)
        with self._ledger.account(caller.key_id) as account:
            self._refuse_if_over(account, limits, tokens=estimated_tokens, now=now)
            self._charge(account, limits, requests=1, tokens=estimated_tokens, now=now)
            account.add_running(1)
            headers = _headers(account, limits, now=now)
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        return Taken(caller.key_id, limits, estimated_tokens, raw)

    def settle(self, took: Taken, *, used_tokens: int | None, now: float) -> None:
        """End a request: correct the token estimate and count it as no longer running.

        Args:
            took: From `take`; may be settled once.
            used_tokens: The worker's count; None if it sent none: the estimate is used.
            now: Monotonic seconds.
        """
        with self._ledger.account(took.key_id) as account:
            if used_tokens is not None:
                extra = used_tokens - took.estimated_tokens
                self._charge(account, took.limits, requests=0, tokens=extra, now=now)
            account.add_running(-1)

    def _refuse_if_over(
        self, account: Account, limits: KeyLimits, *, tokens: int, now: float
    ) -> None:
        most = limits.concurrent_requests
        if most is not None and account.running >= most:
            raise LimitExceededError(
                f"This key may run {most} requests at a time.",
                retry_after_seconds=_CONCURRENCY_RETRY_SECONDS,
                rate_headers=_headers(account, limits, now=now),
            )
        asked = (
            (limits.requests_per_minute, 1, "requests"),
            (limits.tokens_per_minute, tokens, "tokens"),
        )
        for (limit, units, what), arrival in zip(asked, account.arrivals, strict=True):
            wait = (
                0.0 if limit is None else wait_seconds(arrival, now=now, limit=limit, units=units)
            )
            if wait > 0:
                raise LimitExceededError(
                    f"This key may use {limit} {what} a minute.",
                    retry_after_seconds=wait,
                    rate_headers=_headers(account, limits, now=now),
                )

    @staticmethod
    def _charge(
        account: Account, limits: KeyLimits, *, requests: int, tokens: int, now: float
    ) -> None:
        of_requests, of_tokens = account.arrivals
        if limits.requests_per_minute is not None:
            of_requests = taken(
                of_requests, now=now, limit=limits.requests_per_minute, units=requests
            )
        if limits.tokens_per_minute is not None:
            of_tokens = taken(of_tokens, now=now, limit=limits.tokens_per_minute, units=tokens)
        account.arrivals = of_requests, of_tokens


def _headers(account: Account, limits: KeyLimits, *, now: float) -> dict[str, str]:
    of_requests, of_tokens = account.arrivals
    headers: dict[str, str] = {}
    for name, limit, arrival in (
        ("requests", limits.requests_per_minute, of_requests),
        ("tokens", limits.tokens_per_minute, of_tokens),
    ):
        if limit is not None:
            headers |= _reading_headers(name, reading(arrival, now=now, limit=limit))
    return headers


def _reading_headers(name: str, found: Reading) -> dict[str, str]:
    return {
        f"x-ratelimit-limit-{name}": str(found.limit),
        f"x-ratelimit-remaining-{name}": str(found.remaining),
        f"x-ratelimit-reset-{name}": _duration(found.reset_seconds),
    }


def _duration(seconds: float) -> str:
    """OpenAI's notation: `6m0s`, `1.5s`, `20ms`. Source: OpenAI API docs, "Rate limits"."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds, 1), 60)
    return f"{int(minutes)}m{rest:g}s" if minutes else f"{rest:g}s"
