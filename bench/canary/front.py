"""A gateway in front of a worker, with settings for its canary, and what the canary has counted."""

import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from loadtest.processes import free_port
from loadtest.service import RunningGateway, Settings, start_gateway

_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.05
_READ_SECONDS = 30.0
_IDLE_SECONDS = 1.0
"""A canary that is to ask again begins after a quarter of a second."""
_COUNTERS = {
    "gateway_canary_requests_total": "result",
    "gateway_canary_skipped_total": "reason",
    "gateway_canary_shut": "source",
}


class CanaryError(Exception):
    """An answer failed, or the canary does not come to an end."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What a canary has counted.

    Attributes:
        compared: Requests by result; results that did not occur may be absent.
        skipped: Requests by reason.
        shut: Sources that are shut.
    """

    compared: Mapping[str, int]
    skipped: Mapping[str, int]
    shut: int

    @property
    def settled(self) -> int:
        """Requests that were compared or skipped."""
        return sum(self.compared.values()) + sum(self.skipped.values())


async def start_front(stack: AsyncExitStack, worker_port: int, canary: Settings) -> RunningGateway:
    """Start a gateway in front of a worker on 127.0.0.1; it logs defects, and no requests.

    Args:
        stack: Stops it.
        worker_port: Of the worker.
        canary: The section `gateway.canary`.

    Raises:
        StartError: It did not come up.
    """
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sg-canary-")))
    profile = {
        "gateway": {
            "port": free_port(),
            "workers": [f"http://127.0.0.1:{worker_port}"],
            "pacing": {"mode": "off"},
            "log": {"level": "error"},
            "drain": {"accept_seconds": 0.0, "finish_seconds": 1.0},
            "canary": dict(canary),
        }
    }
    return await start_gateway(stack, folder, profile, stop_seconds=_STOP_SECONDS)


async def read_counts(port: int) -> Counts:
    """Read the counts of a gateway on 127.0.0.1.

    Raises:
        CanaryError: It does not answer.
    """
    found: dict[str, dict[str, int]] = {name: defaultdict(int) for name in _COUNTERS}
    for family in text_string_to_metric_families(await _read_metrics(port)):
        for sample in family.samples:
            if (label := _COUNTERS.get(sample.name)) is not None:
                found[sample.name][sample.labels[label]] += int(sample.value)
    compared, skipped, shut = found.values()
    return Counts(compared, skipped, sum(shut.values()))


async def wait_until_settled(port: int, count: int, *, within_seconds: float) -> Counts:
    """Wait until so many requests were compared or skipped.

    Raises:
        CanaryError: They were not in time.
    """
    give_up_at = time.monotonic() + within_seconds
    while (counts := await read_counts(port)).settled < count:
        if time.monotonic() > give_up_at:
            raise CanaryError(f"{counts.settled} of {count} requests were asked again")
        await asyncio.sleep(_POLL_SECONDS)
    return counts


async def wait_until_idle(worker_port: int, *, within_seconds: float) -> None:
    """Wait until a worker has had nothing to do for a while, as after the last second asking.

    Raises:
        CanaryError: It always has.
    """
    give_up_at = time.monotonic() + within_seconds
    idle_since = time.monotonic()
    while time.monotonic() - idle_since < _IDLE_SECONDS:
        page = await _read_metrics(worker_port)
        running = (
            sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.name == "vllm:num_requests_running"
        )
        if any(running):
            idle_since = time.monotonic()
        if time.monotonic() > give_up_at:
            raise CanaryError("the worker is never idle")
        await asyncio.sleep(_POLL_SECONDS)


async def _read_metrics(port: int) -> str:
    try:
        async with httpx.AsyncClient(timeout=_READ_SECONDS, verify=False) as client:
            answer = await client.get(f"http://127.0.0.1:{port}/metrics")
            return answer.raise_for_status().text
    except httpx.HTTPError as error:
        raise CanaryError(f"/metrics: {error!r}") from error
