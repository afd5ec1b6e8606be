"""The picture is drawn for any stream, and of one that shows what pacing is for."""

from pathlib import Path

import pytest

from bench.client import Exchange
from bench.pacing.dialect import Arrival
from bench.pacing.figures import Played, played
from bench.pacing.patterns import Chunk, Pattern
from bench.pacing.plot import draw, most_uneven

MS = 1_000_000


def stream(name: str, *at_ms: int) -> Played:
    pattern = Pattern(name, "chat-8", [Chunk(at * MS, "x", 1) for at in at_ms])
    sent_ns = [at * MS for at in at_ms]
    arrivals = [Arrival(at_ns + MS, "x", None) for at_ns in sent_ns]
    return played(pattern, [*sent_ns, sent_ns[-1]], arrivals, (sent_ns[-1] + MS, 100))


EVEN = stream("even", *range(0, 2_400, 80))
BURSTY = stream("bursty", *range(0, 2_400, 80), *range(2_405, 4_000, 160))
STALLED = stream("stalled", 0, 5, 2_900, 2_905)
SHORT = stream("short", 0, 5, 90, 95)


def test_a_long_stutter_is_shown_rather_than_a_stall() -> None:
    assert most_uneven([EVEN, SHORT, STALLED, BURSTY]) is BURSTY
    assert most_uneven([STALLED]) is STALLED


@pytest.mark.parametrize("name", ["some.svg", "some.png"])
def test_the_picture_is_there(tmp_path: Path, name: str) -> None:
    packets = [(MS, b"x" * 400), (6 * MS, b"x" * 200), (91 * MS, b"x" * 210)]
    shown = {"raw": (BURSTY, Exchange(0, packets)), "private": (BURSTY, Exchange(0, packets[:1]))}

    draw(tmp_path / name, shown)

    assert (tmp_path / name).stat().st_size > 1_000
