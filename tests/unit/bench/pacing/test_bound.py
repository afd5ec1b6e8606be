"""No release is below the bound, and the bound is not far below the best one."""

from collections.abc import Sequence
from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.pacing.best import best_gaps
from bench.pacing.bound import least_ratio, least_ratio_unheaped
from bench.pacing.dialect import Arrival
from bench.pacing.figures import Gaps, Played, gaps_of, percentile, played
from bench.pacing.patterns import Chunk, Pattern
from bench.pacing.plan import BOUND_MS, END_MS

MS = 1_000_000


def sent(chunks: Sequence[tuple[int, int]]) -> Played:
    """A stream of chunks, each with its milliseconds and tokens."""
    found = [Chunk(at * MS, "x" * tokens, tokens) for at, tokens in chunks]
    sent_ns = [chunk.offset_ns for chunk in found]
    arrivals = [Arrival(chunk.offset_ns, chunk.text, None) for chunk in found]
    return played(Pattern("a", "k", found), [*sent_ns, sent_ns[-1]], arrivals, (sent_ns[-1], 9))


def singles(*gaps_ms: int) -> Played:
    return sent([(int(at), 1) for at in np.cumsum([0, *gaps_ms])])


def came_ms(one: Played) -> list[int]:
    return [int(at) // MS for at in one.sent_ns[one.pattern.chunk_of_token]]


def released(at_ms: Sequence[float]) -> Gaps:
    numbers = np.arange(1, len(at_ms) + 1)
    return gaps_of((np.array(at_ms) * MS).astype(np.int64), numbers.astype(float), numbers)


def is_unheaped(gaps: Gaps) -> bool:
    per_token = gaps.ms / gaps.tokens
    median = percentile(per_token, 0.5, gaps.tokens)
    return median is not None and median <= float(np.average(per_token, weights=gaps.tokens))


def every_release(one: Played, step_ms: int) -> list[Gaps]:
    came = came_ms(one)
    holds = [range(0, BOUND_MS + 1, step_ms)] * (len(came) - 2)
    found = []
    for hold in product([0], *holds, range(0, END_MS + 1, step_ms)):
        at_ms = [at + held for at, held in zip(came, hold, strict=True)]
        if all(before <= after for before, after in pairwise(at_ms)):
            found.append(released(at_ms))
    return [gaps for gaps in found if gaps.ratio("token") is not None]


def least_of(releases: Sequence[Gaps]) -> float:
    return min(gaps.ratio("token") or np.inf for gaps in releases)


TINY = {
    "one by one": sent([(0, 1), (10, 1), (310, 1), (320, 1), (330, 1)]),
    "a pause": sent([(0, 1), (20, 1), (40, 1), (440, 1), (460, 1)]),
    "bursts and pauses": sent([(0, 1), (200, 2), (450, 1), (460, 1)]),
    "a late end": sent([(0, 2), (30, 1), (60, 1), (400, 1)]),
    "a piece over two chunks": sent([(0, 1), (260, 1), (360, 2), (600, 1)]),
    "two speeds": sent([(0, 1), (150, 1), (300, 2), (310, 1)]),
    "bursts": sent([(0, 2), (40, 2), (100, 1)]),
}


@pytest.mark.parametrize("one", TINY.values(), ids=TINY)
def test_no_release_of_a_tiny_stream_is_below_the_bound(one: Played) -> None:
    releases = every_release(one, 10)

    assert least_ratio(one) <= least_of(releases)
    unheaped = [gaps for gaps in releases if is_unheaped(gaps)]
    assert least_ratio_unheaped(one) <= least_of(unheaped)


@st.composite
def streams(draw: st.DrawFn) -> Played:
    gaps = st.one_of(st.integers(0, 60), st.integers(100, 900))
    chunks = draw(
        st.lists(st.tuples(gaps, st.sampled_from([1, 2, 5, 20])), min_size=2, max_size=12)
    )
    ends = np.cumsum([gap for gap, _ in chunks])
    return sent([(int(at), tokens) for at, (_, tokens) in zip(ends, chunks, strict=True)])


def any_release(one: Played, random: Random) -> list[float]:
    """Each token leaves when it must, when it can, with the one before it, or between."""
    came = [float(at - came_ms(one)[0]) for at in came_ms(one)]
    most = [at + BOUND_MS for at in came]
    most[0], most[-1] = 0.0, came[-1] + END_MS
    most = np.minimum.accumulate(most[::-1])[::-1].tolist()
    beat = random.choice([0.0, 5.0, 20.0, 60.0])
    at_ms = [0.0]
    for least, latest in zip(came[1:], most[1:], strict=True):
        low = max(least, at_ms[-1])
        between = random.uniform(low, latest)
        wanted = random.choice([low, latest, between, at_ms[-1] + beat, at_ms[-1] + beat])
        at_ms.append(min(max(wanted, low), latest))
    return at_ms


@settings(max_examples=20, deadline=None)
@given(streams(), st.integers(0, 2**32))
def test_no_release_is_below_the_bound(one: Played, seed: int) -> None:
    random = Random(seed)
    least, unheaped = least_ratio(one), least_ratio_unheaped(one)

    tried = [best_gaps(one), *(released(any_release(one, random)) for _ in range(30))]
    ratios = [(gaps.ratio("token"), is_unheaped(gaps)) for gaps in tried]
    assert [ratio for ratio, _ in ratios if ratio is not None and ratio < least] == []
    assert [
        ratio for ratio, even in ratios if even and ratio is not None and ratio < unheaped
    ] == []


def test_a_steady_stream_is_bounded_by_nothing() -> None:
    assert least_ratio(singles(*[20] * 60)) == 1.0


def test_bursts_within_the_bound_can_become_even() -> None:
    bursts = sent(
        [(at, tokens) for at, tokens in zip(range(0, 2_000, 40), [1, 6] * 25, strict=True)]
    )

    assert least_ratio_unheaped(bursts) <= 1.1


def test_of_a_pause_beyond_the_bound_remains_what_its_tokens_cannot_share() -> None:
    # Seven tokens come within the bound, and share the pause. Of 89 gaps none is beyond the p99.
    one = singles(*[20] * 44, 3_000, *[20] * 44)

    mean_ms = (88 * 20 + 3_000 + END_MS) / 89
    # Half of the gaps are the median or more: seven of the pause, and 38 of the rest of the time.
    most_median_ms = 2 * (44 * 20 + BOUND_MS) / 38
    assert 0.97 * 3_000 / 7 / mean_ms <= least_ratio_unheaped(one)
    assert 0.97 * 3_000 / 7 / most_median_ms <= least_ratio(one)
    assert least_ratio(one) <= 1.2 * 3_000 / 7 / most_median_ms


def test_heaps_reach_a_ratio_that_nothing_else_does() -> None:
    slow, fast = 45, 54
    one = singles(*[100] * slow, *[10] * fast)
    # Of ten fast tokens, one is as slow as the slow ones, and the others follow in a heap.
    heaps = [100 * (slow + 1 + number // 10) + (2 if number % 10 else 0) for number in range(50)]
    gaps = released([*range(0, 100 * slow + 1, 100), *heaps, *[100 * slow + 10 * fast] * 4])

    assert gaps.ratio("token") == pytest.approx(100 / 98)
    assert not is_unheaped(gaps)
    assert least_ratio(one) <= 100 / 98
    mean_ms = (100 * slow + 10 * fast + END_MS) / (slow + fast)
    assert least_ratio_unheaped(one) >= 0.95 * 100 / mean_ms


def test_nothing_is_said_of_a_stream_without_gaps() -> None:
    assert least_ratio(sent([(0, 5)])) == 1.0
    assert least_ratio_unheaped(sent([(0, 1)])) == 1.0
