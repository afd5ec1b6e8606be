"""Who is offered what, of prompts, answers and predictions; the same from several threads."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

from engine.suffix import SuffixIndex
from tests.unit.engine.suffix.core.requests import MIB, SONG, answer, continued, own_words


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
