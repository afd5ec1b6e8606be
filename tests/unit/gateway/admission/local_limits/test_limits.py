from collections.abc import Iterator

import pytest

from gateway.admission.keys import Caller, KeyLimits
from gateway.admission.limits import LimitExceededError, Taken
from gateway.admission.local_limits import Ledger, LocalLimits
from tests.unit.gateway.virtual_time import run_in_virtual_time

NOW = 98_765.4321


@pytest.fixture
def limits() -> Iterator[LocalLimits]:
    ledger = Ledger()
    yield LocalLimits(ledger)
    ledger.close()


def caller(
    *, requests: int | None = None, tokens: int | None = None, concurrent: int | None = None
) -> Caller:
    return Caller("acme", "k", KeyLimits(requests, tokens, concurrent))


def take(limits: LocalLimits, who: Caller, *, tokens: int = 1, now: float = NOW) -> Taken:
    took = run_in_virtual_time(limits.take(who, estimated_tokens=tokens, now=now))
    assert took is not None
    return took


@pytest.mark.parametrize(
    "who", [Caller("acme", None, KeyLimits(1, 1, 1)), caller()], ids=["no-key", "no-limits"]
)
def test_a_caller_without_limits_takes_nothing(limits: LocalLimits, who: Caller) -> None:
    assert run_in_virtual_time(limits.take(who, estimated_tokens=10**9, now=NOW)) is None
    limits.peek(who, now=NOW)


def test_the_request_over_the_limit_is_refused_with_all_headers(limits: LocalLimits) -> None:
    who = caller(requests=2, tokens=6000)
    take(limits, who, tokens=100)
    take(limits, who, tokens=100)

    with pytest.raises(LimitExceededError) as caught:
        take(limits, who)

    assert caught.value.status == 429
    assert caught.value.headers == {
        "retry-after": "30",
        "x-ratelimit-limit-requests": "2",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1m0s",
        "x-ratelimit-limit-tokens": "6000",
        "x-ratelimit-remaining-tokens": "5800",
        "x-ratelimit-reset-tokens": "2s",
    }


def test_the_headers_show_what_remains(limits: LocalLimits) -> None:
    took = take(limits, caller(requests=60, tokens=6000), tokens=50)

    assert dict(took.headers) == {
        b"x-ratelimit-limit-requests": b"60",
        b"x-ratelimit-remaining-requests": b"59",
        b"x-ratelimit-reset-requests": b"1s",
        b"x-ratelimit-limit-tokens": b"6000",
        b"x-ratelimit-remaining-tokens": b"5950",
        b"x-ratelimit-reset-tokens": b"500ms",
    }


def test_an_unset_limit_has_no_headers(limits: LocalLimits) -> None:
    assert take(limits, caller(concurrent=5)).headers == []


def test_a_request_passes_after_retry_after(limits: LocalLimits) -> None:
    who = caller(requests=25)  # one each 2.4 s: rounding down would be too early
    for _ in range(25):
        take(limits, who)
    with pytest.raises(LimitExceededError) as caught:
        take(limits, who)

    told = float(caught.value.headers["retry-after"])

    assert take(limits, who, now=NOW + told).key_id == "k"


def test_a_refused_request_takes_nothing(limits: LocalLimits) -> None:
    who = caller(requests=10, tokens=100)
    take(limits, who, tokens=100)
    for _ in range(5):
        with pytest.raises(LimitExceededError):
            take(limits, who, tokens=50)

    took = take(limits, who, tokens=50, now=NOW + 30.001)

    assert dict(took.headers)[b"x-ratelimit-remaining-requests"] == b"9"


def test_unused_tokens_are_returned(limits: LocalLimits) -> None:
    who = caller(tokens=100)
    took = take(limits, who, tokens=100)

    limits.settle(took, used_tokens=20, now=NOW)

    assert dict(take(limits, who, tokens=80).headers)[b"x-ratelimit-remaining-tokens"] == b"0"


def test_tokens_above_the_estimate_are_charged_afterwards(limits: LocalLimits) -> None:
    who = caller(tokens=60)
    took = take(limits, who, tokens=10)

    limits.settle(took, used_tokens=120, now=NOW)

    with pytest.raises(LimitExceededError) as caught:
        take(limits, who, tokens=1)
    assert caught.value.headers["retry-after"] == "61"


def test_without_a_count_the_estimate_is_charged(limits: LocalLimits) -> None:
    who = caller(tokens=100)
    limits.settle(take(limits, who, tokens=60), used_tokens=None, now=NOW)

    headers = dict(take(limits, who, tokens=0).headers)

    assert headers[b"x-ratelimit-remaining-tokens"] == b"40"


@pytest.mark.parametrize("tokens", [10**6, 10**18, 10**4000], ids=["million", "10^18", "10^4000"])
def test_a_large_estimate_costs_one_minute_at_most(limits: LocalLimits, tokens: int) -> None:
    who = caller(tokens=100)

    limits.settle(take(limits, who, tokens=tokens), used_tokens=None, now=NOW)

    assert take(limits, who, tokens=100, now=NOW + 60).key_id == "k"


def test_a_request_that_used_nothing_costs_nothing(limits: LocalLimits) -> None:
    who = caller(tokens=100)

    limits.settle(take(limits, who, tokens=10**9), used_tokens=0, now=NOW)

    assert dict(take(limits, who, tokens=0).headers)[b"x-ratelimit-remaining-tokens"] == b"100"


def test_running_requests_are_counted_until_they_are_settled(limits: LocalLimits) -> None:
    who = caller(concurrent=2)
    first, _ = take(limits, who), take(limits, who)
    with pytest.raises(LimitExceededError) as caught:
        take(limits, who)
    limits.settle(first, used_tokens=None, now=NOW)

    take(limits, who)

    assert caught.value.headers == {"retry-after": "1"}
    with pytest.raises(LimitExceededError, match="2 requests at a time"):
        take(limits, who)


@pytest.mark.parametrize(
    ("who", "first_tokens", "free_after"),
    [
        (caller(requests=1), 1, 60.0),
        (caller(tokens=60), 60, 1.0),
        (caller(tokens=60), 59, 0.0),
        (caller(concurrent=1), 1, None),
        (caller(requests=2, tokens=2, concurrent=2), 1, 0.0),
    ],
    ids=["requests", "tokens", "one-token-left", "concurrency", "free"],
)
def test_a_peek_refuses_what_even_the_smallest_request_could_not_take(
    limits: LocalLimits, who: Caller, first_tokens: int, free_after: float | None
) -> None:
    took = take(limits, who, tokens=first_tokens)
    if free_after is None:
        with pytest.raises(LimitExceededError):
            limits.peek(who, now=NOW + 3600)
        limits.settle(took, used_tokens=None, now=NOW)
    elif free_after > 0:
        with pytest.raises(LimitExceededError):
            limits.peek(who, now=NOW + free_after - 0.01)

    for _ in range(3):
        limits.peek(who, now=NOW + (free_after or 0.0))
    take(limits, who, now=NOW + (free_after or 0.0))


def test_keys_do_not_share_their_limits(limits: LocalLimits) -> None:
    other = Caller("acme", "other", KeyLimits(requests_per_minute=1))
    take(limits, caller(requests=1))

    assert take(limits, other).key_id == "other"


@pytest.mark.parametrize(
    ("used", "shown"),
    [
        (1, b"10ms"),
        (99, b"990ms"),
        (100, b"1s"),
        (150, b"1.5s"),
        (5_996, b"1m0s"),
        (6_000, b"1m0s"),
    ],
)
def test_durations_are_written_as_openai_writes_them(
    limits: LocalLimits, used: int, shown: bytes
) -> None:
    took = take(limits, caller(tokens=6_000), tokens=used)

    assert dict(took.headers)[b"x-ratelimit-reset-tokens"] == shown
