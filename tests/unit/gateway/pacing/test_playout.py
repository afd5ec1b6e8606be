from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.pacing import Playout, Rhythm

BOUND_SECONDS = 0.12
TOLERANCE_SECONDS = 0.002
"""Waits too short for a timer, before and after."""


def halves(item: range, tokens: int, of: int) -> tuple[range, range] | None:
    """Cut a run of tokens; some pairs cannot be cut."""
    assert 0 < tokens < of == len(item)
    return None if of == 2 and item.start % 7 == 6 else (item[:tokens], item[tokens:])


@dataclass
class Lateness:
    """Timers with a given lateness."""

    late_seconds: float = 0.0


def playout(timers: Lateness, *, max_delay_seconds: float = BOUND_SECONDS) -> Playout[range]:
    return Playout(max_delay_seconds=max_delay_seconds, split=halves, timers=timers)


@dataclass
class Played:
    """A buffer on the test's clock, and its output.

    Attributes:
        left: The output in order: token, seconds it waited, clock.
    """

    now: float = 1000.0
    piece_seconds: float = 0.03
    timers: Lateness = field(default_factory=Lateness)
    rhythm: Rhythm = field(default_factory=Rhythm)
    left: list[tuple[int, float, float]] = field(default_factory=list)
    pieces: list[int] = field(default_factory=list)
    items: int = 0

    def __post_init__(self) -> None:
        self.playout = playout(self.timers)

    def arrive(self, tokens: int, *, opens: bool = False) -> None:
        self.rhythm = self.rhythm.after(tokens, self.now)
        item = range(self.items, self.items + tokens)
        self.playout.hold(item, tokens, now=self.now, is_open=opens)
        self.items += tokens
        self.play()

    def play(self) -> None:
        """Release what is due now."""
        if self.playout.wait_seconds(self.now) == 0.0:
            pieces = self.playout.release(self.rhythm, self.now, piece_seconds=self.piece_seconds)
            assert pieces
            self.pieces.append(sum(held.tokens for held in pieces))
            for held in pieces:
                assert held.tokens == len(held.item)
                waited = self.now - held.arrived_seconds
                self.left += [(token, waited, self.now) for token in held.item]

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and release what becomes due."""
        end = self.now + seconds
        while (wait := self.playout.wait_seconds(self.now)) is not None and self.now + wait <= end:
            self.now += wait
            self.play()
        self.now = end

    @property
    def order(self) -> list[int]:
        return [item for item, _, _ in self.left]

    @property
    def longest_seconds(self) -> float:
        return max((waited for _, waited, _ in self.left), default=0.0)


STEPS = st.lists(
    st.tuples(st.floats(0.0, 0.3), st.integers(1, 16), st.booleans()), min_size=1, max_size=40
)


@given(STEPS)
@settings(max_examples=200)
def test_everything_is_sent_in_order_and_in_time(steps: list[tuple[float, int, bool]]) -> None:
    played = Played()

    for gap, tokens, opens in steps:
        played.pass_time(gap)
        played.arrive(tokens, opens=opens)
    held = [token for held in deepcopy(played.playout).release_all() for token in held.item]
    assert played.order + held == list(range(played.items))
    played.pass_time(BOUND_SECONDS)

    assert played.order == list(range(played.items))
    assert played.longest_seconds <= BOUND_SECONDS + TOLERANCE_SECONDS
    assert not played.playout
    assert played.playout.tokens == 0


@given(st.lists(st.tuples(st.floats(-50.0, 50.0), st.integers(0, 8)), min_size=1, max_size=30))
@settings(max_examples=200)
def test_a_jumping_clock_holds_nothing_back(steps: list[tuple[float, int]]) -> None:
    played = Played()

    for jump, tokens in steps:
        played.now += jump
        played.arrive(tokens)
        assert (played.playout.wait_seconds(played.now) or 0.0) <= BOUND_SECONDS
    played.pass_time(BOUND_SECONDS)

    assert played.order == list(range(played.items))


def test_equal_bursts_are_spread_over_their_gap() -> None:
    played = Played()

    for _ in range(40):
        played.pass_time(0.08)
        played.arrive(4)

    clocks = sorted({clock for _, _, clock in played.left[80:]})
    gaps = [b - a for a, b in pairwise(clocks)]
    assert max(gaps) < 2.1 * sum(gaps) / len(gaps)
    assert sum(gaps) / len(gaps) < 0.05


def test_an_open_end_waits_for_what_follows_but_not_beyond_its_bound() -> None:
    played = Played()
    played.arrive(1, opens=True)

    played.pass_time(1.0)

    assert played.order == [0]
    assert BOUND_SECONDS / 2 < played.longest_seconds <= BOUND_SECONDS
    played.arrive(1, opens=True)
    assert played.order == [0]
    played.arrive(1)  # completes the character
    played.pass_time(0.0)
    assert played.order == [0, 1, 2]


@pytest.mark.parametrize(("late_seconds", "longest"), [(0.0, 0.11), (0.04, 0.07), (1.0, 0.055)])
def test_late_timers_shorten_the_delay_to_half_its_bound_at_most(
    late_seconds: float, longest: float
) -> None:
    played = Played(timers=Lateness(late_seconds))

    played.arrive(8)
    assert played.left[0] == (0, 0.0, 1000.0)  # the first piece is sent at once
    assert len(played.left) < 8
    for _ in range(20):
        played.pass_time(0.1)
        played.arrive(8, opens=True)

    assert played.longest_seconds == pytest.approx(longest, abs=0.003)
