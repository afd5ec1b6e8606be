"""The bound on memory, and how tenants share it."""

from random import Random

import psutil
import pytest

from engine.errors import SuffixCapacityError
from engine.suffix import SuffixIndex
from tests.unit.engine.suffix.conversations import MIB, SONG, answer, continued, grafted, own_words


def test_an_answer_that_is_not_kept_leaves_nothing() -> None:
    index = SuffixIndex(MIB, salt=1)
    answer(index, "acme", [1, 2])
    before = index.stats().tokens, index.stats().bytes

    answer(index, "acme", SONG * 100, keep=False)

    assert (index.stats().tokens, index.stats().bytes) == before
    assert continued(index, "acme", SONG[:4]) == []


def test_a_request_without_an_answer_leaves_nothing() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", SONG)

    index.finish("one", keep=True)

    assert (index.stats().tokens, index.stats().requests) == (0, 0)


def test_clear_forgets_everything_and_gives_all_memory_back() -> None:
    index = SuffixIndex(MIB, salt=1)
    answer(index, "acme", SONG * 10)
    answer(index, "umbrella", SONG)

    index.clear()

    assert (index.stats().tokens, index.stats().bytes, index.stats().tenants) == (0, 0, 0)
    assert continued(index, "acme", SONG[:4]) == []


def keep_quietly(index: SuffixIndex) -> None:
    """Keep six answers, less than half of 4 MiB."""
    for part in range(6):
        answer(index, "quiet", own_words(part, 4000))
    assert index.stats().bytes < index.stats().capacity_bytes / 2


def quiet_offers(index: SuffixIndex) -> list[list[int]]:
    return [
        continued(index, "quiet", own_words(part, 4000)[at : at + 4], 246)
        for part in range(6)
        for at in range(0, 3500, 250)
    ]


def test_a_flood_of_answers_never_takes_another_tenants_fair_share() -> None:
    index = SuffixIndex(4 * MIB, salt=1)
    keep_quietly(index)
    before = quiet_offers(index)

    for part in range(200):
        answer(index, "flood", own_words(100 + part, 2000))

    assert index.stats().evicted_tokens > 100_000
    assert quiet_offers(index) == before


def test_a_flood_of_running_requests_never_takes_another_tenants_fair_share() -> None:
    index = SuffixIndex(4 * MIB, salt=1)
    keep_quietly(index)
    before = quiet_offers(index)

    for request in range(3):
        index.start(f"running-{request}", "flood", own_words(10, 20_000))
        index.extend(f"running-{request}", own_words(20 + request, 50_000))
        index.predict(f"running-{request}", own_words(30 + request, 20_000))

    assert index.stats().bytes > 0.8 * index.stats().capacity_bytes
    assert quiet_offers(index) == before
    assert index.stats().evicted_tokens == 0


def test_a_request_whose_text_was_evicted_for_others_goes_on() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "flood", own_words(1, 30_000))
    index.extend("one", own_words(2, 4000))
    index.predict("one", own_words(3, 1000))

    for part in range(10):
        answer(index, "quiet", own_words(10 + part, 4000))
    index.extend("one", own_words(2, 4000)[-20:-10])

    assert index.propose("one", 4).tokens == own_words(2, 4000)[-10:-6]
    index.finish("one", keep=True)
    assert continued(index, "flood", own_words(2, 4000)[-20:-16]) != []


def test_new_tenants_take_their_share_from_the_largest() -> None:
    index = SuffixIndex(4 * MIB, salt=1)
    for part in range(60):
        answer(index, "first", own_words(part, 4000))

    for tenant in range(4):
        answer(index, f"later-{tenant}", own_words(100 + tenant, 4000))

    for tenant in range(4):
        words = own_words(100 + tenant, 4000)
        assert continued(index, f"later-{tenant}", words[:4]) == words[4:12]
    newest = own_words(59, 4000)
    assert continued(index, "first", newest[:4]) == newest[4:12]


def test_the_oldest_answers_are_evicted_first_and_counted() -> None:
    index = SuffixIndex(MIB, salt=1)

    for part in range(40):
        answer(index, "acme", own_words(part, 4000))

    stats = index.stats()
    assert stats.evicted_tokens > 0
    assert stats.tokens + stats.evicted_tokens == 40 * 4001
    assert continued(index, "acme", own_words(0, 4)) == []
    assert continued(index, "acme", own_words(39, 4)) == own_words(39, 12)[4:]


def test_a_prompt_beyond_all_memory_keeps_its_latest_part() -> None:
    index = SuffixIndex(MIB, salt=1)
    prompt = own_words(1, 200_000)

    index.start("one", "acme", prompt)
    index.extend("one", prompt[-20:-10])

    assert index.stats().bytes <= index.stats().capacity_bytes
    assert index.propose("one", 4).tokens == prompt[-10:-6]


def test_an_answer_beyond_all_memory_is_survived() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [1])

    index.extend("one", own_words(1, 400_000))
    index.predict("one", SONG)
    index.propose("one", 4)
    assert grafted(index, [own_words(1, 1)[0]]) == []
    index.finish("one", keep=True)

    assert index.stats().bytes <= index.stats().capacity_bytes
    answer(index, "acme", SONG)
    assert continued(index, "acme", SONG[:4]) == SONG[4:12]


def roam(index: SuffixIndex, *, steps: int, seed: int) -> list[int]:
    """Random calls on a full index; returns the bytes in use after each."""
    rng = Random(seed)
    used = []
    for step in range(steps):
        name, tenant = f"r{step % 5}", f"t{rng.randrange(7)}"
        index.start(name, tenant, [rng.randrange(50) for _ in range(rng.randrange(1, 3000))])
        used.append(index.stats().bytes)
        for _ in range(rng.randrange(6)):
            tokens = [rng.randrange(1 << rng.randrange(1, 20)) for _ in range(rng.randrange(1, 99))]
            index.predict(name, tokens * rng.randrange(1, 40))
            index.extend(name, tokens * rng.randrange(1, 40))
            used.append(index.stats().bytes)
            index.propose(name, 16)
        index.finish(name, keep=rng.random() < 0.9)
        used.append(index.stats().bytes)
    return used


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_on_memory_holds_after_every_call(seed: int) -> None:
    index = SuffixIndex(MIB, salt=1)

    used = roam(index, steps=150, seed=seed)

    assert index.stats().evicted_tokens > 0
    assert max(used) <= index.stats().capacity_bytes


def test_the_process_grows_by_no_more_than_the_bound_says() -> None:
    before = psutil.Process().memory_info().rss
    index = SuffixIndex(32 * MIB, salt=1)

    words = own_words(1, 20_000)
    for _ in range(400):
        answer(index, "acme", words)

    grown = psutil.Process().memory_info().rss - before
    assert index.stats().evicted_tokens > 4_000_000
    # The process may reuse memory that it had before, so the index says how full it is.
    assert index.stats().bytes > 16 * MIB
    assert grown < 48 * MIB


MOST_TENANTS = 1024
ROOM_FOR_ALL = 256 * MIB


def test_a_new_tenant_beyond_the_most_replaces_the_one_used_longest_ago() -> None:
    index = SuffixIndex(ROOM_FOR_ALL, salt=1)
    for number in range(MOST_TENANTS):
        answer(index, f"tenant-{number}", own_words(number, 20))
    assert continued(index, "tenant-0", own_words(0, 4)) != []

    answer(index, "another", SONG)

    assert index.stats().tenants == MOST_TENANTS
    assert continued(index, "another", SONG[:4]) != []
    assert continued(index, "tenant-0", own_words(0, 4)) != []
    # It comes back without its answers, and takes the place of the next one.
    assert continued(index, "tenant-1", own_words(1, 4)) == []


def test_a_tenant_beyond_the_most_is_refused_while_all_have_running_requests() -> None:
    index = SuffixIndex(ROOM_FOR_ALL, salt=1)
    for number in range(MOST_TENANTS):
        index.start(f"request-{number}", f"tenant-{number}", SONG)

    with pytest.raises(SuffixCapacityError, match="1024 tenants"):
        index.start("one", "another", SONG)

    index.finish("request-7", keep=False)
    index.start("one", "another", SONG)
    assert index.stats().tenants == MOST_TENANTS
