"""Where answers part, and what it means."""

import pytest

from gateway.canary.compare import Difference, Verdict, first_difference, source_at
from gateway.protocol import PlainAnswer


def plain(*ids: int, other: float = -3.0, hit_stop: bool = False) -> PlainAnswer:
    """An answer whose tokens have -0.5; the next higher id has `other`."""
    return PlainAnswer(ids, [{one: -0.5, one + 1: other} for one in ids], hit_stop)


def test_equal_answers_do_not_part() -> None:
    assert first_difference([1, 2, 3], plain(1, 2, 3)) is None


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_first_difference_has_its_place_and_margin(place: int) -> None:
    drafted = [10, 20, 30]
    drafted[place] += 1

    assert first_difference(drafted, plain(10, 20, 30)) == Difference(place, 2.5)


def test_a_token_that_is_not_among_the_likeliest_has_a_least_margin() -> None:
    found = first_difference([99], plain(10))

    assert found == Difference(0, 2.5, is_least=True)


def test_a_shorter_answer_differs_unless_a_stop_ended_it() -> None:
    assert first_difference([1, 2, 3], plain(1, 2)) == Difference(2, None)
    assert first_difference([1, 2, 3], plain(1, 2, hit_stop=True)) is None


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (Difference(0, 0.5), "near_tie"),
        (Difference(0, 0.51), "differs"),
        (Difference(0, -4.0), "near_tie"),
        (Difference(0, 0.51, is_least=True), "differs"),
        (Difference(0, 0.5, is_least=True), "unclear"),
        (Difference(0, -4.0, is_least=True), "unclear"),
        (Difference(0, None), "differs"),
    ],
)
def test_the_margin_decides(found: Difference, verdict: Verdict) -> None:
    assert found.verdict(0.5) == verdict


@pytest.mark.parametrize(
    ("place", "source"), [(0, "target"), (1, "head"), (2, "head"), (3, "prediction"), (4, "suffix")]
)
def test_the_source_is_that_of_the_draft_there_or_before(place: int, source: str) -> None:
    sources = ["target", "head", "target", "prediction", "suffix"]

    assert source_at(place, sources) == source
