"""`specgate serve` with two processes looks like one gateway from outside."""

import asyncio
import signal
from pathlib import Path

import httpx
import psutil

from gateway.admission import KeyLimits
from tests.fakes.keys import bearer, issue_key
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT
from tests.integration.process import SERVE, GatewayProcess, gateway_process
from tests.integration.waiting import eventually

_SLOW = {"chunks": 30, "gap_seconds": 0.02}


def _children(gateway: GatewayProcess) -> list[psutil.Process]:
    """The processes that serve, started by the parent."""
    below = psutil.Process(gateway.process.pid).children()
    return [child for child in below if "gateway" in child.cmdline()]


def _connections(gateway: GatewayProcess, port: int) -> list[int]:
    """How many connections to a worker's port each gateway process has."""
    return [
        sum(
            connection.status == psutil.CONN_ESTABLISHED and connection.raddr.port == port
            for connection in child.net_connections("tcp")
        )
        for child in _children(gateway)
    ]


async def _until_all_serve(gateway: GatewayProcess, worker: FakeWorker) -> None:
    """Wait until every process has probed the worker; one is enough to be ready."""
    await eventually(
        lambda: [n > 0 for n in _connections(gateway, worker.port)] == [True, True],
        within_seconds=15.0,
    )


async def _ask_anew(gateway: GatewayProcess, *, key: str = "none") -> int:
    """One request on a connection of its own; returns its status."""
    async with httpx.AsyncClient(base_url=gateway.url, verify=False) as client:
        answer = await client.post(CHAT.path, json=CHAT.body(), headers=bearer(key))
        return answer.status_code


async def _streams_through(
    gateway: GatewayProcess, worker: FakeWorker, index: int, count: int
) -> list[asyncio.Task[None]]:
    """Stall the worker and open streams, while all processes but one are suspended.

    All processes listen on one socket, so the kernel might give every connection to one of them.
    """
    children = _children(gateway)
    others = [child for child in children if child != children[index]]
    before = worker.active
    worker.state.stall = True
    for child in others:
        child.suspend()
    try:
        streams = [asyncio.create_task(CHAT.read_stream(gateway.url, {}, [])) for _ in range(count)]
        await eventually(lambda: worker.active == before + count, within_seconds=10.0)
    finally:
        for child in others:
            child.resume()
    return streams


async def test_both_processes_serve_and_metrics_add_up(worker: FakeWorker, folder: Path) -> None:
    async with gateway_process(folder, worker, command=SERVE, processes=2) as gateway:
        await _until_all_serve(gateway, worker)
        streams = [
            stream
            for index in range(2)
            for stream in await _streams_through(gateway, worker, index, 15)
        ]
        streaming = _connections(gateway, worker.port)
        during = [await gateway.client.get("/metrics") for _ in range(3)]
        worker.state.stall = False
        await asyncio.gather(*streams)
        after = await gateway.client.get("/metrics")

        assert [connections >= 15 for connections in streaming] == [True, True]
        # Both give a tenant the same name.
        assert len({request.json()["cache_salt"] for request in worker.requests}) == 1
        assert ["gateway_inflight_requests 30.0" in page.text for page in during] == [True] * 3
        ended = 'endpoint="/v1/chat/completions",model="fake-model",outcome="completed"'
        assert f"gateway_requests_total{{{ended}}} 30.0" in after.text
        assert f'gateway_worker_up{{worker="127.0.0.1:{worker.port}"}} 1.0' in after.text


async def test_limits_of_a_key_hold_across_processes(worker: FakeWorker, folder: Path) -> None:
    key = issue_key(folder / "keys", KeyLimits(requests_per_minute=5))
    keys = {"file": str(folder / "keys")}
    async with gateway_process(folder, worker, command=SERVE, processes=2, keys=keys) as gateway:
        statuses = await asyncio.gather(*(_ask_anew(gateway, key=key) for _ in range(20)))

        assert sorted(statuses) == [200] * 5 + [429] * 15


async def test_terminate_drains_all_processes_and_leaves_no_orphan(
    worker: FakeWorker, folder: Path
) -> None:
    drain = {"accept_seconds": 0.2, "finish_seconds": 5.0}
    async with gateway_process(folder, worker, command=SERVE, processes=2, drain=drain) as gateway:
        await _until_all_serve(gateway, worker)
        pieces: list[list[str]] = [[] for _ in range(20)]
        streams = [
            asyncio.create_task(CHAT.read_stream(gateway.url, {"fake": _SLOW}, into))
            for into in pieces
        ]
        await eventually(lambda: worker.active == 20, within_seconds=10.0)
        below = psutil.Process(gateway.process.pid).children(recursive=True)

        gateway.signal(signal.SIGTERM)
        await asyncio.gather(*streams)
        status = await gateway.ended()

        assert status == 0
        assert ["".join(texts) for texts in pieces] == [" hello" * 30] * 20
        assert len(below) == 2
        assert [child for child in below if child.is_running()] == []


async def test_killed_process_is_replaced_and_its_gauges_are_removed(
    worker: FakeWorker, folder: Path
) -> None:
    async with gateway_process(folder, worker, command=SERVE, processes=2) as gateway:
        await _until_all_serve(gateway, worker)
        streams = await _streams_through(gateway, worker, 1, 20)

        victim = _children(gateway)[1]
        victim.kill()
        ends = await asyncio.gather(*streams, return_exceptions=True)
        worker.state.stall = False
        assert all(isinstance(end, Exception) for end in ends)
        await eventually(lambda: gateway.logged("process_ended") != [])

        assert "gateway_inflight_requests 0.0" in (await gateway.client.get("/metrics")).text
        assert gateway.logged("process_ended")[0]["exit_status"] == -signal.SIGKILL
        await eventually(lambda: len(_children(gateway)) == 2 and victim not in _children(gateway))
        assert [await _ask_anew(gateway) for _ in range(10)] == [200] * 10
        await eventually(lambda: any("ready after" in line for line in gateway.lines))
        await eventually(lambda: any('"model": "fake-model"' in line for line in gateway.lines))


async def test_processes_end_when_the_parent_is_killed(worker: FakeWorker, folder: Path) -> None:
    async with gateway_process(folder, worker, command=SERVE, processes=2) as gateway:
        below = psutil.Process(gateway.process.pid).children(recursive=True)

        gateway.signal(signal.SIGKILL)
        await gateway.ended()

        await eventually(lambda: not any(child.is_running() for child in below))


async def test_one_worker_serves_all_processes_until_the_last_stream_ends(folder: Path) -> None:
    drain = {"accept_seconds": 0.0, "finish_seconds": 5.0}
    async with gateway_process(folder, command=SERVE, processes=2, drain=drain) as gateway:
        pieces: list[list[str]] = [[] for _ in range(20)]
        streams = [
            asyncio.create_task(CHAT.read_stream(gateway.url, {"fake": _SLOW}, into))
            for into in pieces
        ]
        await eventually(lambda: all(pieces), within_seconds=10.0)

        gateway.signal(signal.SIGTERM)
        await asyncio.gather(*streams)

        assert await gateway.ended() == 0
        assert ["".join(texts) for texts in pieces] == [" hello" * 30] * 20
        assert len(gateway.lives) == 1
        assert not psutil.pid_exists(gateway.lives[0][0])


async def test_worker_that_refuses_its_settings_ends_all_processes(folder: Path) -> None:
    (folder / "plan").write_text("refuse", encoding="utf-8")
    async with gateway_process(folder, command=SERVE, processes=2, wait_ready=False) as gateway:
        assert await gateway.ended() == 2
