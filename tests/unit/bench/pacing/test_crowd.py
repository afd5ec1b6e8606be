"""A crowd's cost is what the gateway took while all streams ran, less what it takes idle."""

from dataclasses import replace

import numpy as np
import pytest

from bench.client import Exchange
from bench.pacing.crowd import CrowdReadings, Sample, crowd_figures, crowd_patterns
from bench.pacing.dialect import Arrival
from bench.pacing.figures import Played, played
from bench.pacing.patterns import Chunk, Pattern
from bench.pacing.plan import QUICK
from bench.pacing.round import Playback

SECOND = 1_000_000_000
CHUNKS = [Chunk(number * SECOND // 10, "xy", 2) for number in range(50)]


def stream(*, begin_ns: int, way_ns: int = 5_000_000) -> Played:
    pattern = Pattern("crowd", "crowd", CHUNKS)
    sent_ns = [begin_ns + chunk.offset_ns for chunk in CHUNKS]
    arrivals = [Arrival(at_ns + way_ns, "xy", None) for at_ns in sent_ns]
    return played(pattern, [*sent_ns, sent_ns[-1]], arrivals, (sent_ns[-1] + way_ns, 100))


def readings(*streams: Played | None, samples: list[Sample] | None = None) -> CrowdReadings:
    # Half a core before and after the streams, a whole one from the first to the fifth second.
    usual = [Sample(n * SECOND, n * SECOND // 2, n * SECOND // 4) for n in (0, 1)]
    usual += [
        Sample(n * SECOND, SECOND // 2 + (n - 1) * SECOND, n * SECOND // 4) for n in (2, 3, 4)
    ]
    captures = [Exchange(int(each.sent_ns[0])) for each in streams if each is not None]
    playback = Playback(list(streams), captures, [], None)
    return CrowdReadings(playback, usual if samples is None else samples, len(streams))


def test_only_the_time_when_all_ran_counts() -> None:
    found = crowd_figures(readings(stream(begin_ns=0), stream(begin_ns=0)), idle_cores=0.0)

    assert found is not None
    assert found.cores == pytest.approx(1.0)
    assert found.harness_cores == pytest.approx(0.25)
    assert found.tokens_per_second == pytest.approx(40.0)
    assert found.chunks_per_second == pytest.approx(20.0)


def test_cpu_per_token_leaves_out_the_idle_share() -> None:
    found = crowd_figures(readings(stream(begin_ns=0), stream(begin_ns=0)), idle_cores=0.2)

    assert found is not None
    assert found.cpu_us_per_token == pytest.approx(0.8 / 40 * 1e6)


def test_each_stream_is_as_late_as_its_latest_token() -> None:
    late = stream(begin_ns=0, way_ns=9_000_000)
    late = replace(
        late, received_ns=late.received_ns + np.eye(1, 100, 7, dtype=np.int64)[0] * 10**8
    )
    found = crowd_figures(readings(stream(begin_ns=0), late), idle_cores=0.0)

    assert found is not None
    assert found.worst_delay_ms == pytest.approx([5.0, 109.0])


def test_streams_that_failed_are_errors() -> None:
    found = crowd_figures(readings(stream(begin_ns=0), None), idle_cores=0.0)

    assert found is not None
    assert found.errors == 1


def test_a_crowd_that_never_ran_has_no_figures() -> None:
    assert crowd_figures(readings(None, None), idle_cores=0.0) is None
    assert crowd_figures(readings(stream(begin_ns=0), samples=[]), idle_cores=0.0) is None


def test_crowds_are_of_fifty_tokens_a_second() -> None:
    patterns = crowd_patterns(replace(QUICK, crowd_seconds=4.0), 2.0)

    assert len({pattern.name for pattern in patterns}) == QUICK.crowd_copies
    assert {pattern.tokens for pattern in patterns} == {200}
    assert np.mean([len(pattern.chunks) for pattern in patterns]) == pytest.approx(100, rel=0.1)
