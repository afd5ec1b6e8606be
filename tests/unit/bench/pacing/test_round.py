"""The harness in small: the worker plays, the client captures, nothing in between."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from bench.client import Crowd
from bench.pacing.figures import MismatchError
from bench.pacing.patterns import Chunk, Pattern, save_patterns, synthetic
from bench.pacing.round import play
from bench.pacing.targets import Stage
from loadtest.processes import ChildProcess, Command, free_port

PATTERNS = synthetic(tokens=8, copies=1, seed=1)
CROWD = Crowd(at_once=4, spacing_seconds=0.0, limit_seconds=4.0)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    port = free_port()
    save_patterns(tmp_path / "patterns", PATTERNS)
    options = ("--port", str(port), "--patterns", str(tmp_path / "patterns"))
    command = Command(
        name="worker",
        arguments=[sys.executable, "-m", "bench.pacing.worker", *options],
        ready_url=f"http://127.0.0.1:{port}/health",
        start_seconds=20.0,
        environment={},
    )
    worker = ChildProcess(command, log=tmp_path / "log")
    await worker.start()
    yield Stage(gateway=worker, worker=worker, port=port, worker_port=port)
    await worker.stop()


async def test_every_stream_comes_whole_and_on_time(stage: Stage) -> None:
    playback = await play(stage, PATTERNS, "off", CROWD)

    assert playback.flaws == []
    for played, pattern in zip(playback.good, PATTERNS, strict=True):
        due_ns = [chunk.offset_ns for chunk in pattern.chunks]
        assert np.diff(played.sent_ns[:-1]) / 1e6 == pytest.approx(np.diff(due_ns) / 1e6, abs=50)
        assert played.delays_ms.min() >= 0.0
        assert played.end_ms >= 0.0
        assert played.bytes > len(pattern.text)


async def test_a_pattern_that_the_worker_does_not_know_is_a_flaw(stage: Stage) -> None:
    unknown = Pattern("unknown", "k", [Chunk(0, "x", 1)])
    playback = await play(stage, [unknown, *PATTERNS], "off", CROWD)

    assert playback.played[0] is None
    assert len(playback.good) == len(PATTERNS)
    assert "not to be played" in playback.flaws[0]


async def test_another_text_stops_the_benchmark(stage: Stage) -> None:
    other = Pattern(PATTERNS[0].name, "k", [Chunk(0, "another text", 8)])

    with pytest.raises(MismatchError, match="steady-0"):
        await play(stage, [other], "off", CROWD)
