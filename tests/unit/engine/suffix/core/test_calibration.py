"""What the model of a tenant has learnt, and how soon it changes."""

from random import Random

import numpy as np

from engine.suffix import SuffixIndex
from tests.unit.engine.suffix.conversations import MIB, SONG

OWN = 1
LENGTH = 64


def reliability(index: SuffixIndex) -> float:
    """How often a long match in a request's own text is believed to be right."""
    learnt = index.core.calibration("acme")
    assert learnt is not None
    return float(np.array(learnt["reliability"])[OWN, LENGTH])


def write_right(index: SuffixIndex, times: int) -> None:
    """Write a text that repeats itself, and draft at each token."""
    index.start("right", "acme", SONG * 4)
    for number in range(times):
        index.propose("right", 4)
        index.extend("right", [SONG[number % len(SONG)]])
    index.finish("right", keep=False)


def write_wrong(index: SuffixIndex, times: int) -> None:
    """Let long matches be wrong: each goes on otherwise than before."""
    for number in range(times):
        index.start("wrong", "acme", [*SONG * 2, 5])
        index.extend("wrong", SONG * 2)
        index.propose("wrong", 4)
        index.extend("wrong", [100 + number])
        index.finish("wrong", keep=False)


def test_a_long_history_does_not_slow_down_what_is_learnt_next() -> None:
    index = SuffixIndex(4 * MIB, salt=1)
    write_right(index, 60_000)
    before = reliability(index)

    write_wrong(index, 64)

    assert before > 0.95
    assert reliability(index) < before / 2


def test_the_odds_of_drafts_follow_a_change_after_a_long_history() -> None:
    index = SuffixIndex(4 * MIB, salt=1)
    write_right(index, 60_000)
    write_wrong(index, 100)

    index.start("now", "acme", [*SONG * 2, 5])
    index.extend("now", SONG * 2)

    assert index.propose("now", 4).survival[0] < 0.5


def drafted_next(drafted: int) -> list[float]:
    """The survival of a draft after one of `drafted` tokens, of which four came, all right."""
    random = Random(1)
    index = SuffixIndex(4 * MIB, salt=1)
    text = [random.randrange(1000) for _ in range(60)]
    index.start("one", "acme", [*text, *text[:8]])
    index.propose("one", drafted)
    index.extend("one", text[8:12])
    return index.propose("one", 4).survival


def test_a_draft_that_runs_past_the_end_is_not_refused_there() -> None:
    assert drafted_next(4)[0] <= drafted_next(20)[0]
