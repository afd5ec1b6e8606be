from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from random import Random

import pytest

from gateway.routing.prefix import Prefix, block_ends
from gateway.routing.route import NO_ASK, Answered, Ask, Report, Route
from gateway.routing.router import Router
from gateway.types import WorkerId


def router(workers: int, *, most_load: float = 1.2) -> Router:
    made = Router(most_load=most_load)
    for at in range(workers):
        made.join(WorkerId(f"w{at}"))
        made.set_up(WorkerId(f"w{at}"), True)
    return made


def ask(talk: int, *, turn: int = 0, length: int = 8192, system: int = 0) -> Ask:
    """A conversation whose prompts share `system` bytes with all others."""
    length += 2048 * turn
    ends = block_ends(length)
    hashes = tuple(hash((0 if end <= system else talk, end)) & (2**64 - 1) for end in ends)
    key = Random(talk).getrandbits(64)
    return Ask("t", Prefix(hashes, tuple(ends), length, key, continues=turn > 0))


def choose(of: Router, what: Ask = NO_ASK, *, not_on: Collection[str] = ()) -> Route:
    route = of.choose(what, lambda name: name not in not_on)
    assert route is not None
    return route


def serve(
    of: Router, what: Ask, *, cached: int | None = None, now: float = 0.0, seconds: float = 1.0
) -> Route:
    """Choose a worker, and let it answer."""
    route = choose(of, what)
    of.begin(route, now)
    of.first_token(route, now + seconds / 4)
    prompt = what.prefix.length // 4
    found = round(route.cached_tokens) if cached is None else cached
    of.end(route, now + seconds, Answered(prompt, found, 100))
    return route


def test_a_conversation_returns_to_where_it_was_read() -> None:
    made = router(8)
    first = serve(made, ask(1))
    second = choose(made, ask(1, turn=1))

    assert second.worker == first.worker
    assert second.reason == "cached"
    assert second.cached_tokens == pytest.approx(2048, rel=0.1)
    assert second.expected_seconds < first.expected_seconds


def test_replicas_that_know_nothing_send_a_conversation_to_the_same_worker() -> None:
    one, two = router(16), router(16)
    for talk in range(50):
        first = serve(one, ask(talk))
        assert choose(two, ask(talk, turn=1)).worker == first.worker


def test_new_conversations_are_spread() -> None:
    made = router(8)
    chosen = []
    for talk in range(80):
        route = choose(made, ask(talk))
        made.begin(route, 0.0)
        chosen.append(route.worker)

    assert max(Counter(chosen).values()) <= 1.2 * (10 + 1) + 1


def test_a_worker_that_holds_the_prompt_but_has_too_many_requests_is_passed_over() -> None:
    made = router(8)
    home = serve(made, ask(1)).worker
    made.report(home, Report(requests=1))
    assert choose(made, ask(1, turn=1)).worker == home

    made.report(home, Report(requests=4))
    assert choose(made, ask(1, turn=1)).worker != home


def test_a_conversation_stays_where_no_other_would_be_sent() -> None:
    made, length = router(4), 2**16
    home = serve(made, ask(1, length=length)).worker
    for name in ("w0", "w1", "w2", "w3"):
        made.report(WorkerId(name), Report(requests=30 if name == home else 20))

    assert choose(made, ask(1, turn=1, length=length)).worker == home
    assert choose(made, ask(1, length=length)).worker != home


def test_requests_of_other_gateways_count() -> None:
    made = router(4)
    for name in ("w0", "w1", "w3"):
        made.report(WorkerId(name), Report(requests=20))

    assert choose(made).worker == "w2"
    made.report(WorkerId("w2"), Report(requests=60))
    assert choose(made).worker != "w2"


def test_own_requests_are_not_counted_twice() -> None:
    made = router(2)
    route = choose(made)
    made.begin(route, 0.0)
    made.report(route.worker, Report(requests=1))
    made.end(route, 1.0, None)

    assert [place.crowd for place in made._places if place] == [0, 0]


def test_a_slow_worker_gets_less() -> None:
    made, shares = router(2), Counter[str]()
    for talk in range(1500):
        route = choose(made, ask(talk, length=512))
        made.begin(route, talk)
        made.first_token(route, talk + 0.1)
        slowness = 10 if route.worker == "w0" else 1
        made.end(route, talk + 0.1 + slowness, Answered(128, 0, 100))
        shares[route.worker] += talk >= 1000

    assert shares["w0"] < 0.3 * shares["w1"]


def test_workers_that_cannot_take_it_are_not_chosen() -> None:
    made = router(3)
    home = serve(made, ask(1)).worker

    assert choose(made, ask(1, turn=1), not_on={home}).worker != home
    assert made.choose(ask(1), lambda name: False) is None
    assert Router(most_load=2).choose(NO_ASK, lambda name: True) is None


def test_a_worker_that_was_down_has_lost_its_cache() -> None:
    made = router(2)
    home = serve(made, ask(1)).worker
    made.set_up(home, False)
    assert choose(made, ask(1, turn=1)).worker != home

    made.set_up(home, True)
    assert home in {choose(made, ask(talk)).worker for talk in range(40)}
    assert choose(made, ask(1, turn=1)).block == -1


def test_a_worker_that_left_is_forgotten_and_its_requests_may_still_end() -> None:
    made = router(3)
    route = choose(made, ask(1))
    made.begin(route, 0.0)
    made.leave(route.worker)
    made.join(route.worker)
    made.set_up(route.worker, True)
    made.first_token(route, 2.0)
    made.end(route, 3.0, Answered(2048, 0, 100))

    assert [place.running for place in made._places if place] == [0, 0, 0]
    assert choose(made, ask(1, turn=1)).block == -1


def test_a_cache_that_lacks_what_was_expected_has_lost_all_that_is_older() -> None:
    made = router(1)
    serve(made, ask(1), now=0)
    serve(made, ask(2), now=10)
    serve(made, ask(2, turn=1), now=20)  # tells what it found
    serve(made, ask(2, turn=2), cached=0, now=30)

    assert choose(made, ask(2, turn=3)).block >= 0
    assert choose(made, ask(1, turn=1)).block == -1


def test_a_worker_that_never_tells_is_not_corrected() -> None:
    made = router(1)
    serve(made, ask(1), cached=0)
    serve(made, ask(1, turn=1), cached=0)

    assert choose(made, ask(1, turn=2)).block >= 0


def test_what_others_have_sent_is_supposed_as_far_as_it_was_found() -> None:
    hits, misses = router(4), router(4)
    for talk in range(100):
        serve(hits, ask(talk, turn=1), cached=2400)
        serve(misses, ask(talk, turn=1), cached=16)
    new = ask(1000, turn=1)

    assert choose(hits, new).cached_tokens > 2000
    assert choose(misses, new).cached_tokens < 200


def test_a_request_that_fails_teaches_nothing_and_is_no_longer_counted() -> None:
    made = router(2)
    before = choose(made, ask(1)).expected_seconds
    route = choose(made, ask(1))
    made.begin(route, 0.0)
    made.end(route, 500.0, None)

    assert choose(made, ask(2)).expected_seconds == pytest.approx(before)


def test_a_limit_makes_the_expected_time_shorter() -> None:
    made = router(2)
    short = replace(ask(1), most_tokens=1)

    assert choose(made, short).expected_seconds < choose(made, ask(1)).expected_seconds
