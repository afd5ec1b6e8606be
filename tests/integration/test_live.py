"""`GET /live` with two gateway processes, a worker that hangs, and a supervised worker."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT
from tests.integration.process import SERVE, GatewayProcess, gateway_process
from tests.integration.running import running_gateway
from tests.integration.waiting import eventually

_QUICK = {"sample_seconds": 1.0}
_SILENT = "The engine stayed silent for too long."


def _children(gateway: GatewayProcess) -> list[psutil.Process]:
    below = psutil.Process(gateway.process.pid).children()
    return [child for child in below if "gateway" in child.cmdline()]


@contextmanager
def _alone(gateway: GatewayProcess, index: int) -> Iterator[None]:
    """All processes but one are suspended: that one takes every new connection."""
    others = [child for at, child in enumerate(_children(gateway)) if at != index]
    for child in others:
        child.suspend()
    try:
        yield
    finally:
        for child in others:
            child.resume()


async def _look(gateway: GatewayProcess) -> dict[str, Any]:
    """What `/live` shows on a connection of its own."""
    async with httpx.AsyncClient(base_url=gateway.url, verify=False, timeout=10) as client:
        found: dict[str, Any] = (await client.get("/live")).json()
        return found


async def _until_shown(
    gateway: GatewayProcess, claim: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    async with asyncio.timeout(15.0):
        while True:
            if claim(found := await _look(gateway)):
                return found
            await asyncio.sleep(0.1)


def _workers(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {worker["worker"]: worker for worker in found["workers"]}


def _shows_twelve_and_one_silent(page: dict[str, Any]) -> bool:
    errors = [worker["error"] for worker in page["workers"]]
    return bool(page["series"]["active"][-1:] == [12] and errors == [None, _SILENT])


def _shows_a_ready_worker(page: dict[str, Any]) -> bool:
    supervisor = _workers(page)["local"]["supervisor"]
    return supervisor is not None and supervisor["state"] == "ready"


async def _until_both_serve(gateway: GatewayProcess, *, workers: int) -> None:
    await eventually(lambda: len(gateway.logged("worker_up")) == 2 * workers, within_seconds=30.0)


async def test_each_process_shows_the_numbers_of_both(worker: FakeWorker, folder: Path) -> None:
    async with (
        FakeWorker() as hanging,
        gateway_process(
            folder, worker, hanging, command=SERVE, processes=2, live=_QUICK
        ) as gateway,
    ):
        name, other = (f"127.0.0.1:{fake.port}" for fake in (worker, hanging))
        await _until_both_serve(gateway, workers=2)
        hanging.state.reporting = "hangs"
        streams: list[asyncio.Task[None]] = []
        worker.state.stall = hanging.state.stall = True
        for index in range(2):
            with _alone(gateway, index):
                streams.extend(
                    asyncio.create_task(CHAT.read_stream(gateway.url, {"fake": {"chunks": 5}}, []))
                    for _ in range(6)
                )
                await eventually(
                    lambda: worker.active + hanging.active == len(streams), within_seconds=10.0
                )
        for index in range(2):
            with _alone(gateway, index):
                found = await _until_shown(gateway, _shows_twelve_and_one_silent)
                workers = _workers(found)
                assert sum(one["in_flight"] for one in workers.values()) == 12
                assert workers[name]["in_flight"] == worker.active
                assert [one["up"] for one in workers.values()] == [True, True]
                assert workers[name]["engines"][0]["price"] == 0.25
                assert workers[other]["error"] == _SILENT

        worker.state.stall = hanging.state.stall = False
        await asyncio.gather(*streams)
        # A process may count a request as ended a moment after its client has the end.
        await _until_shown(gateway, lambda page: page["series"]["active"][-1] == 0)
        for index in range(2):
            with _alone(gateway, index):
                found = await _until_shown(gateway, lambda page: sum(page["gaps"]["raw"]) == 48)
                assert sum(found["gaps"]["paced"]) == 48
                assert found["series"]["active"][-1] == 0
                assert any(time is not None for time in found["series"]["ttft_p50"])


async def test_a_supervised_worker_is_shown_by_every_process(folder: Path) -> None:
    async with gateway_process(folder, command=SERVE, processes=2, live=_QUICK) as gateway:
        await _until_both_serve(gateway, workers=1)
        for index in range(2):
            with _alone(gateway, index):
                found = await _until_shown(gateway, _shows_a_ready_worker)
                assert _workers(found)["local"]["supervisor"] == {
                    "state": "ready",
                    "pid": gateway.lives[0][0],
                    "restarts": 0,
                    "last_reason": None,
                }


async def test_a_worker_that_hangs_delays_neither_requests_nor_the_end(worker: FakeWorker) -> None:
    worker.state.reporting = "hangs"
    async with running_gateway(worker, live={"sample_seconds": 0.1}) as gateway:
        await eventually(lambda: worker.state.paths["/speculation"] >= 3)

        answer = await gateway.client.post(CHAT.path, json=CHAT.body())
        page = json.loads((await gateway.client.get("/live")).content)

        assert answer.status_code == 200
        assert page["workers"][0]["error"] == _SILENT
