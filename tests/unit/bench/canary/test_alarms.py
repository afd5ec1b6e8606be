"""The part itself, in small, against the fake worker."""

from typing import Any

import pytest

from bench.canary.alarms import SETTINGS, Alarms, measure, report
from bench.canary.front import CanaryError, Counts
from tests.fakes.script import Script
from tests.fakes.state import DEFAULT_MODEL
from tests.fakes.worker import FakeWorker
from tests.integration.running import running_gateway

SCRIPT: dict[str, Any] = {"chunks": 2, "tokens_per_chunk": 4, "drafted": 8, "accepted": 6}


async def test_all_requests_are_asked_again_and_their_drafts_counted() -> None:
    async with FakeWorker() as worker, running_gateway(worker, canary=SETTINGS) as gateway:
        worker.state.script = Script(**SCRIPT)

        found = await measure(gateway.port, DEFAULT_MODEL, requests=50)

    assert (found.requests, found.accepted) == (50, 300)
    assert (found.counts.compared["same"], found.counts.settled) == (50, 50)


async def test_a_false_alarm_is_counted_and_shuts_its_source() -> None:
    async with FakeWorker() as worker, running_gateway(worker, canary=SETTINGS) as gateway:
        worker.state.script = Script(**SCRIPT, wrong_token=2)

        found = report(await measure(gateway.port, DEFAULT_MODEL, requests=2))

    assert found["compared"] == {"same": 0, "near_tie": 0, "differs": 2}
    assert found["shut"] == 1


async def test_a_failed_request_ends_the_run() -> None:
    async with FakeWorker() as worker, running_gateway(worker, canary=SETTINGS) as gateway:
        worker.state.script = Script(status=400)
        with pytest.raises(CanaryError, match="status 400"):
            await measure(gateway.port, DEFAULT_MODEL, requests=1)


def test_what_was_skipped_is_told() -> None:
    found = report(Alarms(5, 12, Counts({"same": 4}, {"busy": 1, "late": 0}, 0)))

    assert found == {
        "requests": 5,
        "tokens": 40,
        "accepted_tokens": 12,
        "compared": {"same": 4, "near_tie": 0, "differs": 0},
        "skipped": {"busy": 1},
        "shut": 0,
    }
