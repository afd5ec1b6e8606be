"""What requests are offered from prompts, answers and predictions, also from several threads."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from engine.suffix import SuffixIndex
from tests.unit.engine.suffix.conversations import MIB, SONG, answer, continued, own_words


@pytest.mark.parametrize(
    ("prompt", "written"),
    [([1], [*SONG, *SONG[:4]]), ([*SONG, 7], SONG[:4]), ([*SONG, *SONG[:4]], [])],
    ids=["its answer", "its prompt", "its prompt, at once"],
)
def test_a_request_is_offered_its_own_text(prompt: list[int], written: list[int]) -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", prompt)
    if written:
        index.extend("one", written)

    assert index.propose("one", 8).tokens == SONG[4:12]


def test_nothing_is_offered_if_nothing_matches() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", SONG)

    assert len(index.propose("one", 8)) == 0


def test_a_finished_answer_is_offered_to_its_tenant_and_no_other() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [1])
    index.extend("one", SONG)

    assert continued(index, "acme", SONG[:4]) == []  # still running

    index.finish("one", keep=True)
    assert continued(index, "acme", SONG[:4]) == SONG[4:12]
    assert continued(index, "umbrella", SONG[:4]) == []


@pytest.mark.parametrize("part", ["prompt", "prediction"])
def test_prompts_and_predictions_are_offered_to_their_own_request_alone(part: str) -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", SONG if part == "prompt" else [1])
    if part == "prediction":
        index.predict("one", SONG)

    assert continued(index, "acme", SONG[:4]) == []

    index.finish("one", keep=True)
    assert continued(index, "acme", SONG[:4]) == []


def test_an_answer_does_not_continue_into_the_next() -> None:
    index = SuffixIndex(MIB, salt=1)

    answer(index, "acme", SONG[:20])
    answer(index, "acme", SONG[20:])

    assert continued(index, "acme", SONG[10:20]) == []


def test_a_later_prediction_replaces_an_earlier_one() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [1])
    index.predict("one", SONG)
    index.predict("one", [7, 8, 9])

    assert index.propose("one", 2).tokens == [7, 8]
    index.extend("one", SONG[:4])
    assert index.propose("one", 8).tokens == []


@pytest.mark.parametrize(
    ("prompt", "predicted", "written", "tokens", "following"),
    [
        ([1], SONG, [], SONG[:8], 8),
        ([1], SONG, SONG[:5], SONG[5:13], 8),
        ([1], SONG, [*SONG[:12], 5, SONG[13]], SONG[14:22], 8),
        (SONG, SONG[:12], SONG[:8], SONG[8:16], 4),
        (
            own_words(1, 20),
            SONG,
            [*SONG[:4], *own_words(1, 4)],
            own_words(1, 12)[4:],
            0,
        ),
        # After SONG the prompt says 7 eight times, and the prediction, with less context, 5: 7 is
        # drafted.
        ([*SONG, 7, 8, 9] * 8, [*SONG[20:], 5, 6], SONG[:36], [*SONG[36:], 7, 8, 9, *SONG[:1]], 4),
        (SONG, [], SONG[:4], SONG[4:12], 0),
    ],
    ids=["start", "middle", "edit", "its end", "left", "other token", "none"],
)
def test_a_draft_follows_the_prediction_and_counts_these_tokens(
    prompt: list[int], predicted: list[int], written: list[int], tokens: list[int], following: int
) -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", prompt)
    if predicted:
        index.predict("one", predicted)
    if written:
        index.extend("one", written)

    draft = index.propose("one", 8)

    assert (draft.tokens, draft.predicted) == (tokens, following)


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
        draft = index.propose(name, 12, min_survival=0.1)
        seen.append((draft.tokens, draft.survival))
    index.finish(name, keep=True)
    return seen


def test_same_calls_give_same_drafts() -> None:
    first, second = (SuffixIndex(8 * MIB, salt=5) for _ in range(2))

    assert [drafts(first, "acme", seed) for seed in range(4)] == [
        drafts(second, "acme", seed) for seed in range(4)
    ]


def test_the_salt_does_not_change_ordinary_drafts() -> None:
    every = []
    for salt in (1, 2, 3):
        index = SuffixIndex(8 * MIB, salt=salt)
        answer(index, "acme", own_words(1, 500))
        every.append(continued(index, "acme", own_words(1, 300), 100))

    assert every == [own_words(1, 400)[300:]] * 3


def test_threads_with_tenants_of_their_own_get_what_they_get_alone() -> None:
    together = SuffixIndex(64 * MIB, salt=5)
    tenants = [f"tenant-{number}" for number in range(8)]
    alone = [drafts(SuffixIndex(64 * MIB, salt=5), tenant, 1) for tenant in tenants]

    with ThreadPoolExecutor(8) as pool:
        shared = list(pool.map(lambda tenant: drafts(together, tenant, 1), tenants))

    assert shared == alone


def test_threads_on_a_full_index_keep_the_memory_bound() -> None:
    index = SuffixIndex(2 * MIB, salt=1)

    with ThreadPoolExecutor(4) as pool:
        every = list(pool.map(lambda seed: len(drafts(index, "acme", seed)), range(40)))

    stats = index.stats()
    assert every == [60] * 40
    assert stats.requests == 0
    assert 0 < stats.bytes <= stats.capacity_bytes
