"""The test of a challenger: how often it errs, and that it ends."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.policy import MOST_PAIRS, Contest, Verdict
from engine.policy.contest import ERROR_RATE

RUNS = 1500


def play(
    differences: Callable[[np.random.Generator], NDArray[np.float64]], runs: int
) -> list[Contest]:
    played = []
    for seed in range(runs):
        contest = Contest()
        for difference in differences(np.random.default_rng(seed)).tolist():
            contest.add(difference)
        played.append(contest)
    return played


def share(played: list[Contest], verdict: Verdict) -> float:
    return sum(contest.verdict is verdict for contest in played) / len(played)


def accepted(draws: np.random.Generator, rate: float) -> NDArray[np.float64]:
    """Accepted tokens of drafts of three, each accepted at this rate."""
    right = draws.random((MOST_PAIRS, 3)) < rate
    counts: NDArray[np.float64] = np.cumprod(right, 1).sum(1).astype(np.float64)
    return counts


def alike(draws: np.random.Generator) -> NDArray[np.float64]:
    return accepted(draws, 0.5) - accepted(draws, 0.5)


def alike_in_runs(draws: np.random.Generator) -> NDArray[np.float64]:
    """As `alike`, but texts go well or badly for ten pairs or so."""
    luck, noise = 0.0, []
    for step in draws.normal(size=MOST_PAIRS).tolist():
        luck = 0.8 * luck + 0.6 * step
        noise.append(luck)
    return alike(draws) + 0.4 * np.array(noise)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("differences", "most"), [(alike, ERROR_RATE), (alike_in_runs, 0.05)], ids=["drawn", "in runs"]
)
def test_an_equal_challenger_is_rarely_taken_for_a_better_one(
    differences: Callable[[np.random.Generator], NDArray[np.float64]], most: float
) -> None:
    played = play(differences, RUNS)

    assert share(played, Verdict.BETTER) < most
    assert share(played, Verdict.WORSE) < most
    assert all(contest.verdict is not None for contest in played)


@pytest.mark.timeout(60)
def test_a_worse_challenger_is_never_taken() -> None:
    played = play(lambda draws: accepted(draws, 0.45) - accepted(draws, 0.5), 300)

    assert share(played, Verdict.BETTER) == 0.0
    assert share(played, Verdict.WORSE) > 0.5


@pytest.mark.timeout(60)
def test_a_better_challenger_is_found_and_mostly_early() -> None:
    played = play(lambda draws: accepted(draws, 0.6) - accepted(draws, 0.5), 300)

    assert share(played, Verdict.BETTER) > 0.95
    assert np.median([contest.pairs for contest in played]) <= MOST_PAIRS / 2


@pytest.mark.parametrize(
    ("difference", "verdict", "pairs"),
    [
        (0.0, Verdict.UNDECIDED, MOST_PAIRS),
        (0.1, Verdict.BETTER, MOST_PAIRS // 5),
        (-0.1, Verdict.WORSE, MOST_PAIRS // 5),
    ],
)
def test_it_ends_after_a_stated_number_of_pairs(
    difference: float, verdict: Verdict, pairs: int
) -> None:
    contest = Contest()

    for _ in range(2 * MOST_PAIRS):
        contest.add(difference)

    assert (contest.verdict, contest.pairs) == (verdict, pairs)
    assert contest.mean == pytest.approx(difference)


def test_nothing_is_known_before_the_first_look() -> None:
    contest = Contest()
    contest.add(5.0)

    assert (contest.mean, contest.score, contest.verdict) == (0.0, 0.0, None)
