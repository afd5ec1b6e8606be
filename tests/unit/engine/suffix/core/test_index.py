"""Who sees what, who gives up memory for whom, and that the bound on it holds."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import psutil
import pytest

from engine.suffix import SuffixIndex

MIB = 1 << 20
BLOCK = 1 << 14
SONG = list(range(1000, 1040))


def answer(index: SuffixIndex, tenant: str, tokens: list[int], *, keep: bool = True) -> None:
    """A whole request."""
    index.start("whole", tenant, [1])
    index.extend("whole", tokens)
    index.finish("whole", keep=keep)


def continued(index: SuffixIndex, tenant: str, tokens: list[int], most: int = 8) -> list[int]:
    """What a new request of that tenant is offered after these tokens."""
    index.start("probe", tenant, [2])
    index.extend("probe", tokens)
    draft = index.propose("probe", most, min_survival=0.0)
    index.finish("probe", keep=False)
    return draft.tokens


def test_a_request_is_offered_what_it_wrote_before() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [1])

    index.extend("one", [*SONG, *SONG[:4]])

    assert index.propose("one", 8, min_survival=0.0).tokens == SONG[4:12]


def test_a_request_is_offered_what_its_prompt_says() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [*SONG, 7])

    index.extend("one", SONG[:4])

    assert index.propose("one", 8, min_survival=0.0).tokens == SONG[4:12]


def test_a_draft_may_follow_the_prompt_at_once() -> None:
    index = SuffixIndex(MIB, salt=1)

    index.start("one", "acme", [*SONG, *SONG[:4]])

    assert index.propose("one", 8, min_survival=0.0).tokens == SONG[4:12]


def test_nothing_is_offered_where_nothing_matches() -> None:
    index = SuffixIndex(MIB, salt=1)

    index.start("one", "acme", SONG)

    assert len(index.propose("one", 8, min_survival=0.0)) == 0


def test_a_tenant_is_offered_what_it_got_before() -> None:
    index = SuffixIndex(MIB, salt=1)

    answer(index, "acme", SONG)

    assert continued(index, "acme", SONG[:4]) == SONG[4:12]


def test_a_tenant_is_never_offered_what_another_got() -> None:
    index = SuffixIndex(MIB, salt=1)

    answer(index, "acme", SONG)

    assert continued(index, "umbrella", SONG[:4]) == []


def test_a_prompt_is_seen_by_its_own_request_alone() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", SONG)

    assert continued(index, "acme", SONG[:4]) == []

    index.finish("one", keep=True)
    assert continued(index, "acme", SONG[:4]) == []


def test_an_answer_is_seen_by_others_when_it_is_finished() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [1])
    index.extend("one", SONG)

    assert continued(index, "acme", SONG[:4]) == []

    index.finish("one", keep=True)
    assert continued(index, "acme", SONG[:4]) == SONG[4:12]


def test_an_answer_does_not_run_into_the_next() -> None:
    index = SuffixIndex(MIB, salt=1)

    answer(index, "acme", SONG[:20])
    answer(index, "acme", SONG[20:])

    assert continued(index, "acme", SONG[10:20]) == []


def test_a_prediction_is_offered_from_its_first_token() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [1])

    index.predict("one", SONG)

    assert index.propose("one", 8, min_survival=0.0).tokens == SONG[:8]


def test_a_prediction_is_seen_by_its_own_request_alone() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [1])
    index.predict("one", SONG)

    assert continued(index, "acme", SONG[:4]) == []

    index.finish("one", keep=True)
    assert continued(index, "acme", SONG[:4]) == []


def test_a_later_prediction_replaces_an_earlier_one() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [1])
    index.predict("one", SONG)

    index.predict("one", [7, 8, 9])

    assert index.propose("one", 2, min_survival=0.0).tokens == [7, 8]
    index.extend("one", SONG[:4])
    assert index.propose("one", 8, min_survival=0.0).tokens == []


def test_a_prediction_is_followed_again_after_an_edit() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [1])
    index.predict("one", SONG)

    index.extend("one", [*SONG[:12], 5, SONG[13]])

    assert index.propose("one", 4, min_survival=0.0).tokens == SONG[14:18]


def test_a_draft_counts_the_tokens_that_follow_the_prediction() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [1])
    index.predict("one", SONG)

    first = index.propose("one", 8, min_survival=0.0)
    index.extend("one", SONG[:5])
    later = index.propose("one", 8, min_survival=0.0)

    assert (first.tokens, first.predicted) == (SONG[:8], 8)
    assert (later.tokens, later.predicted) == (SONG[5:13], 8)


def test_a_draft_that_goes_on_where_the_prediction_ends_counts_up_to_there() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", SONG)
    index.predict("one", SONG[:12])
    index.extend("one", SONG[:8])

    draft = index.propose("one", 8, min_survival=0.0)

    assert (draft.tokens, draft.predicted) == (SONG[8:16], 4)


def test_a_draft_that_leaves_the_prediction_counts_nothing() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", own_words(1, 20))
    index.predict("one", SONG)

    index.extend("one", [*SONG[:4], *own_words(1, 4)])
    draft = index.propose("one", 8, min_survival=0.0)

    assert (draft.tokens, draft.predicted) == (own_words(1, 12)[4:], 0)


def test_a_draft_counts_only_where_the_prediction_names_the_same_token() -> None:
    """After SONG the prompt says 7 eight times, the prediction 5 once, and the prompt is heard."""
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [*SONG, 7, 8, 9] * 8)
    index.predict("one", [*SONG, 5, 6])
    index.extend("one", SONG[:36])

    draft = index.propose("one", 7, min_survival=0.0)

    assert draft.tokens == [*SONG[36:], 7, 8, 9]
    assert draft.predicted == 4


def test_a_draft_without_a_prediction_counts_nothing() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", SONG)
    answer(index, "acme", SONG)

    index.extend("one", SONG[:4])
    draft = index.propose("one", 8, min_survival=0.0)

    assert (draft.tokens, draft.predicted) == (SONG[4:12], 0)


def grafted(index: SuffixIndex, tokens: list[int], most: int = 8) -> list[int]:
    """What request "one" is offered behind tokens that another drafter proposes."""
    return index.propose_after("one", tokens, 0.5, most, min_survival=0.0).tokens


@pytest.mark.parametrize("size", [1, 2, 4, 20])
def test_a_graft_continues_what_its_request_saw(size: int) -> None:
    index = SuffixIndex(MIB, salt=1)

    index.start("one", "acme", [*SONG, 7])

    assert grafted(index, SONG[:size]) == SONG[size : size + 8]


def test_a_graft_continues_what_its_tenant_got_and_no_other() -> None:
    index = SuffixIndex(MIB, salt=1)
    answer(index, "acme", SONG)
    answer(index, "umbrella", own_words(1, 20))

    index.start("one", "acme", [1])

    assert grafted(index, SONG[:4]) == SONG[4:12]
    assert grafted(index, own_words(1, 4)) == []


def test_a_graft_continues_a_prediction_and_counts_it() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [1])
    index.predict("one", SONG)

    at_once = index.propose_after("one", SONG[:3], 0.5, 8, min_survival=0.0)
    elsewhere = index.propose_after("one", SONG[20:22], 0.5, 8, min_survival=0.0)

    assert (at_once.tokens, at_once.predicted) == (SONG[3:11], 8)
    assert (elsewhere.tokens, elsewhere.predicted) == (SONG[22:30], 8)


def test_a_graft_follows_a_prediction_again_after_an_edit() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [1])
    index.predict("one", SONG)
    index.extend("one", SONG[:12])

    assert grafted(index, [5, SONG[13]], 4) == SONG[14:18]


def test_behind_tokens_that_were_never_seen_nothing_is_grafted() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [*SONG, *SONG[:4]])
    index.predict("one", SONG)

    assert grafted(index, [5]) == []
    assert grafted(index, [SONG[4], 5]) == []
    assert grafted(index, [5, SONG[4]]) == SONG[5:13]


def test_matches_of_the_request_walk_along() -> None:
    """What was seen behind [5, 6, 7, 8] five times since then is not what came after PHRASE."""
    phrase = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    since = [token for number in range(5) for token in (5, 6, 7, 8, 90 + number)]
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [*phrase, *since])

    assert grafted(index, [5, 6, 7, 8], 1) != [9]
    index.extend("one", [1, 2, 3, 4])
    assert grafted(index, [5, 6, 7, 8], 1) == [9]


def test_a_graft_follows_a_loop_through_what_is_proposed() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [1, 2, 3, 1, 2, 3, 1])

    assert grafted(index, [2, 3, 1, 2, 3, 1, 2], 6) == [3, 1, 2, 3, 1, 2]


def test_the_survival_of_a_graft_starts_where_it_is_told() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", SONG * 3)

    sure, unsure, hopeless = (
        index.propose_after("one", SONG[:4], survival, 8, min_survival=0.0).survival
        for survival in (1.0, 0.25, 0.0)
    )

    assert 0.25 < sure[-1] < sure[0] < 1.0
    assert 0.0 < unsure[-1] < unsure[0] < 0.25
    assert hopeless == [0.0] * 8


def test_a_graft_ends_before_the_first_token_that_is_too_unsure() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", SONG * 3)
    every = index.propose_after("one", SONG[:4], 0.5, 8, min_survival=0.0).survival

    some = index.propose_after("one", SONG[:4], 0.5, 8, min_survival=every[3])

    assert some.survival == every[:4]
    assert len(index.propose_after("one", SONG[:4], 0.5, 8, min_survival=0.5)) == 0
    assert len(index.propose_after("one", SONG[:4], 0.0, 8)) == 0


def test_a_graft_offers_nothing_that_was_forgotten_since_it_was_found() -> None:
    index = SuffixIndex(MIB, salt=1)
    answer(index, "acme", SONG)
    index.start("one", "acme", [1])
    index.extend("one", SONG[:4])
    found = index.propose("one", 8, min_survival=0.0).tokens, grafted(index, SONG[4:6])

    for part in range(40):
        answer(index, "acme", own_words(part, 4000))

    assert found == (SONG[4:12], SONG[6:14])
    assert grafted(index, SONG[4:6]) == []


def test_a_graft_is_the_same_whether_a_draft_was_asked_for_before() -> None:
    first, second = (SuffixIndex(MIB, salt=1) for _ in range(2))
    for index in (first, second):
        index.start("one", "acme", SONG * 2)
        index.propose("one", 8)
        index.extend("one", SONG[:5])

    second.propose("one", 8)

    behind = SONG[5:8], 0.5, 8
    assert first.propose_after("one", *behind).survival != []
    assert first.propose_after("one", *behind).survival == (
        second.propose_after("one", *behind).survival
    )


def graft_at_random(index: SuffixIndex, rng: Random) -> None:
    tokens = [rng.randrange(20) for _ in range(rng.randrange(1, 6))]
    index.propose_after("one", tokens, rng.random(), rng.randrange(20), min_survival=0.0)


def converse(index: SuffixIndex, between: Callable[[], None]) -> list[tuple[object, ...]]:
    """What is drafted in an edited conversation, with another call in between all others."""
    rng = Random(3)
    source = [rng.randrange(20) for _ in range(200)]
    index.start("one", "acme", source)
    index.predict("one", source)
    seen: list[tuple[object, ...]] = []
    for step in range(150):
        between()
        draft = index.propose("one", 12, min_survival=0.1)
        seen.append((draft.tokens, draft.survival, draft.share, draft.predicted))
        between()
        if step % 3 == 0:
            index.observe("one", min(step % 4, len(draft)))
            between()
        at = rng.randrange(180)
        index.extend("one", [*draft.tokens[: step % 4], *source[at : at + 12]])
    index.finish("one", keep=True)
    return seen


def test_a_graft_changes_no_later_draft_and_nothing_that_is_kept(tmp_path: Path) -> None:
    with_grafts, without = (SuffixIndex(MIB, salt=1) for _ in range(2))

    rng = Random(4)

    seen = converse(with_grafts, lambda: graft_at_random(with_grafts, rng))

    assert seen == converse(without, lambda: None)
    with_grafts.save(tmp_path / "with")
    without.save(tmp_path / "without")
    assert (tmp_path / "with").read_bytes() == (tmp_path / "without").read_bytes()


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


def own_words(tenant: int, size: int) -> list[int]:
    return [1_000_000 * tenant + i for i in range(size)]


def keep_quietly(index: SuffixIndex) -> None:
    """Six answers that take less than half of 4 MiB."""
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


def test_a_request_whose_text_was_shortened_for_others_goes_on() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "flood", own_words(1, 30_000))
    index.extend("one", own_words(2, 4000))
    index.predict("one", own_words(3, 1000))

    for part in range(10):
        answer(index, "quiet", own_words(10 + part, 4000))
    index.extend("one", own_words(2, 4000)[-20:-10])

    assert index.propose("one", 4, min_survival=0.0).tokens == own_words(2, 4000)[-10:-6]
    index.finish("one", keep=True)
    assert continued(index, "flood", own_words(2, 4000)[-20:-16]) != []


def test_new_tenants_take_their_share_from_who_has_most() -> None:
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


def test_the_oldest_answers_go_first_and_are_counted() -> None:
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
    assert index.propose("one", 4, min_survival=0.0).tokens == prompt[-10:-6]


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
            index.propose(name, 16, min_survival=0.0)
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
    assert 16 * MIB < grown < 48 * MIB


def drafts(index: SuffixIndex, tenant: str, seed: int) -> list[tuple[list[int], list[float]]]:
    """One conversation, and what was drafted in it."""
    rng = Random(seed)
    source = [rng.randrange(400) for _ in range(600)]
    name = f"{tenant}-{seed}"
    index.start(name, tenant, source)
    seen = []
    for _ in range(60):
        at = rng.randrange(550)
        index.extend(name, [*source[at : at + 12], rng.randrange(400)])
        draft = index.propose(name, 12)
        seen.append((draft.tokens, draft.survival))
    index.finish(name, keep=True)
    return seen


def test_same_calls_give_same_drafts() -> None:
    first, second = (SuffixIndex(8 * MIB, salt=5) for _ in range(2))

    assert [drafts(first, "acme", seed) for seed in range(4)] == [
        drafts(second, "acme", seed) for seed in range(4)
    ]


def test_the_salt_does_not_show_in_ordinary_drafts() -> None:
    every = []
    for salt in (1, 2, 3):
        index = SuffixIndex(8 * MIB, salt=salt)
        answer(index, "acme", own_words(1, 500))
        every.append(continued(index, "acme", own_words(1, 300), 100))

    assert every[0] == own_words(1, 400)[300:]
    assert every[0] == every[1] == every[2]


def test_threads_with_tenants_of_their_own_get_what_they_get_alone() -> None:
    together = SuffixIndex(64 * MIB, salt=5)
    tenants = [f"tenant-{number}" for number in range(8)]
    alone = [drafts(SuffixIndex(64 * MIB, salt=5), tenant, 1) for tenant in tenants]

    with ThreadPoolExecutor(8) as pool:
        shared = list(pool.map(lambda tenant: drafts(together, tenant, 1), tenants))

    assert shared == alone


def test_threads_on_a_full_index_keep_to_the_bound() -> None:
    index = SuffixIndex(2 * MIB, salt=1)

    with ThreadPoolExecutor(4) as pool:
        every = list(pool.map(lambda seed: len(drafts(index, "acme", seed)), range(40)))

    stats = index.stats()
    assert every == [60] * 40
    assert stats.requests == 0
    assert 0 < stats.bytes <= stats.capacity_bytes
