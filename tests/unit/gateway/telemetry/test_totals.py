import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from gateway.telemetry import GatewayMetrics, Totals, WorkerTotals, read_totals
from gateway.types import WorkerId
from tests.unit.gateway.telemetry.test_metrics import RECORD

EVENTS = """
import asyncio
from prometheus_client import CollectorRegistry
from gateway.telemetry import GatewayMetrics
from tests.unit.gateway.telemetry.test_totals import cause_events

metrics = GatewayMetrics(CollectorRegistry(), multiprocess=True)
asyncio.run(cause_events(metrics, up={up}))
"""


async def cause_events(metrics: GatewayMetrics, *, up: bool) -> None:
    """A stream of 4 tokens, another answer of 5, and two workers, of which one leaves."""
    metrics.slots_changed(3, 1)
    for worker in ("a", "b"):
        metrics.worker_joined(WorkerId(worker))
        metrics.worker_load(WorkerId(worker), 2)
    metrics.worker_up(WorkerId("a"), up)
    metrics.worker_ejected(WorkerId("a"), "lost")
    metrics.worker_left(WorkerId("b"))
    metrics.gaps_from_worker.observe(0.002, 3)
    metrics.gaps_to_client.observe(0.03, 3)
    metrics.request_ended(RECORD, now=101.0)
    metrics.request_ended(replace(RECORD, stream_end=None, first_token_seconds=None), now=101.0)


def check(totals: Totals, *, processes: int, up: bool) -> None:
    assert totals.requests == 2 * processes
    assert totals.tokens == (3 + 1 + 5) * processes
    assert (totals.active, totals.queued) == (3 * processes, processes)
    assert totals.first_token.total == processes
    assert totals.first_token.counts[6] == processes  # 0.25 s is in (0.2, 0.3]
    assert totals.raw_gaps.counts[1] == totals.raw_gaps.total == 3 * processes
    assert totals.paced_gaps.counts[7] == totals.paced_gaps.total == 3 * processes
    assert totals.workers[WorkerId("a")] == WorkerTotals(up, True, processes, 2 * processes)
    assert WorkerId("b") not in totals.workers


async def test_the_events_of_one_process_are_added_up() -> None:
    metrics = GatewayMetrics(CollectorRegistry())

    await cause_events(metrics, up=True)

    check(read_totals(metrics.registry, None), processes=1, up=True)


@pytest.mark.parametrize("second_up", [True, False])
def test_the_events_of_all_processes_are_added_up(tmp_path: Path, second_up: bool) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for up in (True, second_up):
        code = EVENTS.format(up=up)
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)

    check(read_totals(CollectorRegistry(), tmp_path), processes=2, up=second_up)


def test_before_any_event_all_is_zero() -> None:
    metrics = GatewayMetrics(CollectorRegistry())

    totals = read_totals(metrics.registry, None)

    assert (totals.requests, totals.tokens, totals.active, totals.queued) == (0, 0, 0, 0)
    assert totals.first_token.quantile(0.5) is None
    assert totals.workers == {}


def test_a_file_that_has_just_been_removed_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "gauge_livesum_1.db").symlink_to(tmp_path / "gone")

    assert read_totals(CollectorRegistry(), tmp_path).active == 0
