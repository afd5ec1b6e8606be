"""Drafts after tokens that another drafter proposed (grafts), and the length of matches."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from engine.suffix import SuffixIndex
from tests.unit.engine.suffix.conversations import MIB, SONG, answer, grafted, own_words


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

    at_once = index.propose_after("one", SONG[:3], 0.5, 8)
    elsewhere = index.propose_after("one", SONG[20:22], 0.5, 8)

    assert (at_once.tokens, at_once.predicted) == (SONG[3:11], 8)
    assert (elsewhere.tokens, elsewhere.predicted) == (SONG[22:30], 8)


def test_a_graft_follows_a_prediction_again_after_an_edit() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [1])
    index.predict("one", SONG)
    index.extend("one", SONG[:12])

    assert grafted(index, [5, SONG[13]], 4) == SONG[14:18]


def test_nothing_is_grafted_after_unknown_tokens() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", [*SONG, *SONG[:4]])
    index.predict("one", SONG)

    assert grafted(index, [5]) == []
    assert grafted(index, [SONG[4], 5]) == []
    assert grafted(index, [5, SONG[4]]) == SONG[5:13]


def test_matches_of_the_request_move_along() -> None:
    """Since the phrase, [5, 6, 7, 8] was followed five times by something else."""
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


def test_the_survival_of_a_graft_starts_from_that_of_the_proposal() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", SONG * 3)

    sure, unsure, hopeless = (
        index.propose_after("one", SONG[:4], survival, 8).survival for survival in (1.0, 0.25, 0.0)
    )

    assert 0.25 < sure[-1] < sure[0] < 1.0
    assert 0.0 < unsure[-1] < unsure[0] < 0.25
    assert hopeless == [0.0] * 8


def test_a_graft_ends_before_the_first_token_below_the_least_survival() -> None:
    index = SuffixIndex(MIB, salt=1)
    index.start("one", "acme", SONG * 3)
    every = index.propose_after("one", SONG[:4], 0.5, 8).survival

    some = index.propose_after("one", SONG[:4], 0.5, 8, min_survival=every[3])

    assert some.survival == every[:4]
    assert len(index.propose_after("one", SONG[:4], 0.5, 8, min_survival=0.5)) == 0


def test_a_graft_offers_nothing_that_was_evicted_meanwhile() -> None:
    index = SuffixIndex(MIB, salt=1)
    answer(index, "acme", SONG)
    index.start("one", "acme", [1])
    index.extend("one", SONG[:4])
    found = index.propose("one", 8).tokens, grafted(index, SONG[4:6])

    for part in range(40):
        answer(index, "acme", own_words(part, 4000))

    assert found == (SONG[4:12], SONG[6:14])
    assert grafted(index, SONG[4:6]) == []


def test_a_graft_does_not_depend_on_an_earlier_draft() -> None:
    first, second = (SuffixIndex(MIB, salt=1) for _ in range(2))
    for index in (first, second):
        index.start("one", "acme", SONG * 2)
        index.extend("one", SONG[:5])
    second.propose("one", 8)

    found = [index.propose_after("one", SONG[5:8], 0.5, 8).survival for index in (first, second)]

    assert found[0] == found[1] != []


def graft_at_random(index: SuffixIndex, rng: Random) -> None:
    tokens = [rng.randrange(20) for _ in range(rng.randrange(1, 6))]
    index.propose_after("one", tokens, rng.random(), rng.randrange(20))


def converse(index: SuffixIndex, between: Callable[[], None]) -> list[tuple[object, ...]]:
    """What is drafted in an edited conversation, with a call between all others."""
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


@pytest.mark.parametrize("before", [4096 - 38, 4096 - 5, 4096, 2 * 4096 - 5])
def test_a_match_is_as_long_where_its_text_lies_in_two_blocks(before: int) -> None:
    """A block holds 4096 tokens. Survival reveals how long the match was."""

    def survival(words: int) -> list[float]:
        index = SuffixIndex(4 * MIB, salt=1)
        index.start("one", "acme", [*range(2000, 2000 + words), *SONG])
        index.extend("one", [7, *SONG[:30]])
        return index.propose("one", 8).survival

    found = survival(before)

    assert found == survival(100)
    assert len(found) == 8
