"""The harness itself, in small: every probe of a round against the fake worker."""

import os
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.calls import unary_call
from bench.gateway.figures import figures_of, flaws_of
from bench.gateway.plan import QUICK
from bench.gateway.probes import at_saturation
from bench.gateway.round import Target, measure_round
from bench.gateway.targets import fake_worker_command
from loadtest.processes import ChildProcess, Command, StartError, free_port
from tests.fakes.worker import FakeWorker

TINY = replace(
    QUICK,
    unary_count=5,
    first_byte_count=2,
    burst_count=2,
    paced_count=1,
    paced_gap_seconds=0.001,
    steady_seconds=0.2,
    saturation_seconds=0.1,
    saturation_connections=2,
    idle_seconds=0.05,
    light_streams=2,
    loaded_streams=4,
    crowd_streams=20,
    crowd_seconds=0.5,
    crowd_ramp_seconds=0.05,
    warm_up=1,
)


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as started:
        yield started


async def test_round_measures_everything_without_an_error(worker: FakeWorker) -> None:
    readings = await measure_round(Target("direct", worker.port, None), TINY, with_crowd=True)

    figures = figures_of(readings, TINY)
    assert flaws_of(readings) == []
    assert len(readings.unary.exchanges) == 5
    assert readings.crowd is not None
    assert len(readings.crowd.streams.exchanges) == 20
    assert figures.chunks_per_second is not None
    assert figures.cpu_us_per_chunk is None  # nobody is in between


async def test_failures_are_readings_and_do_not_stop_a_run(worker: FakeWorker) -> None:
    worker.state.models = ["another"]

    readings = await at_saturation(worker.port, unary_call(), connections=2, seconds=0.1)

    assert readings.exchanges == []
    assert all(flaw.startswith("status 404") for flaw in readings.flaws)
    assert readings.flaws != []


async def test_child_process_reports_its_cpu_and_memory_and_ends(tmp_path: Path) -> None:
    port = free_port()
    child = ChildProcess(fake_worker_command(port), log=tmp_path / "log")
    await child.start()
    try:
        before = child.cpu_ns()
        await at_saturation(port, unary_call(), connections=2, seconds=0.2)

        assert child.cpu_ns() - before > 1_000_000
        assert child.resident_bytes() > 2**20
    finally:
        await child.stop()

    with pytest.raises(ConnectionRefusedError):
        await at_saturation(port, unary_call(), connections=1, seconds=0.1)


async def test_child_that_ends_early_says_what_it_printed(tmp_path: Path) -> None:
    command = Command(
        name="broken",
        arguments=[sys.executable, "-c", "raise SystemExit('no such luck')"],
        ready_url=f"http://127.0.0.1:{free_port()}/",
        start_seconds=10.0,
        environment={"HOME": os.fspath(tmp_path)},
    )

    with pytest.raises(StartError, match="no such luck"):
        await ChildProcess(command, log=tmp_path / "log").start()
