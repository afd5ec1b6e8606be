import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from gateway.app import create_app
from gateway.assembly import Lifecycle
from gateway.errors import ConfigError
from gateway.server import Drain, ParentWatch, bind, drain_notice, serve
from gateway.settings import DrainSettings, GatewaySettings
from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.virtual_time import now, run_in_virtual_time

QUICK = DrainSettings(accept_seconds=0.2, finish_seconds=5)


def test_a_socket_listens_and_can_be_handed_on() -> None:
    with bind("127.0.0.1", 0) as sock, socket.create_connection(sock.getsockname()) as client:
        assert client.getpeername() == sock.getsockname()
        assert os.get_inheritable(sock.fileno())


def test_an_ipv6_address_works() -> None:
    with bind("::1", 0) as sock:
        assert sock.family is socket.AF_INET6


def test_a_port_in_use_is_an_error() -> None:
    with bind("127.0.0.1", 0) as sock, pytest.raises(ConfigError, match="in use"):
        bind("127.0.0.1", sock.getsockname()[1])


class Drained:
    """A drain of a server that never ran, and the times at which requests were ended."""

    def __init__(self, *, accept_seconds: float = 5, finish_seconds: float = 60) -> None:
        settings = DrainSettings(accept_seconds=accept_seconds, finish_seconds=finish_seconds)
        self.ended_at: list[float] = []
        self.told: list[str] = []
        self.lifecycle = Lifecycle(end_requests=lambda: self.ended_at.append(now()))
        self.server = uvicorn.Server(uvicorn.Config(FastAPI()))
        self.drain = Drain(self.server, self.lifecycle, settings, self.told.append)


def test_a_drain_has_three_steps() -> None:
    async def scenario() -> None:
        drained = Drained()

        drained.drain.begin(accept_seconds=5)

        assert (drained.lifecycle.draining, drained.server.should_exit) == (True, False)
        await asyncio.sleep(4.9)
        assert not drained.server.should_exit
        await asyncio.sleep(0.2)
        assert (drained.server.should_exit, drained.server.force_exit) == (True, False)
        await asyncio.sleep(100)
        assert drained.ended_at == [65]

    run_in_virtual_time(scenario())


def test_a_second_signal_ends_at_once() -> None:
    async def scenario() -> None:
        drained = Drained()
        drained.drain.begin(accept_seconds=5)
        await asyncio.sleep(1)

        drained.drain.begin(accept_seconds=5)

        assert (drained.server.should_exit, drained.server.force_exit) == (True, True)
        assert drained.ended_at == [1]
        assert drained.told == ["stopping", "ending at once"]

    run_in_virtual_time(scenario())


@pytest.mark.parametrize(
    ("running", "words"),
    [(1, "1 running request, at most 10 s;"), (2, "2 running requests, at most 10 s;")],
)
def test_a_drain_says_what_it_waits_for(running: int, words: str) -> None:
    assert words in drain_notice(running, 10.0)


@asynccontextmanager
async def served(
    lifecycle: Lifecycle, worker: str, settings: DrainSettings = QUICK
) -> AsyncIterator[tuple[httpx.AsyncClient, asyncio.Task[int]]]:
    app = create_app(
        GatewaySettings(workers=(worker,)), lifecycle=lifecycle, registry=CollectorRegistry()
    )
    sock = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    async with httpx.AsyncClient(base_url=url) as client:
        task = asyncio.create_task(serve(app, sock, lifecycle, settings))
        assert (await client.get("/health/live")).status_code == 200
        try:
            yield client, task
        finally:
            lifecycle.stop()
            await task
            sock.close()


async def test_after_sigterm_the_server_is_unready_accepts_for_a_time_and_exits_with_0() -> None:
    async with FakeWorker() as worker, served(Lifecycle(), worker.url) as (client, task):
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)

        assert (await client.get("/health/ready")).json() == {"status": "draining"}
        body: dict[str, list[str]] = {"messages": []}
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
        assert await asyncio.wait_for(task, 3) == 0


async def test_ctrl_c_ends_at_once() -> None:
    async with served(Lifecycle(), "http://127.0.0.1:1") as (_, task):
        os.kill(os.getpid(), signal.SIGINT)

        assert await asyncio.wait_for(task, 2) == 0


async def test_running_requests_may_finish() -> None:
    async with FakeWorker() as worker, served(Lifecycle(), worker.url) as (client, task):
        body = {"messages": [], "fake": {"delay_headers_seconds": 0.4}}
        running = asyncio.create_task(client.post("/v1/chat/completions", json=body))
        await eventually(lambda: worker.active == 1)

        os.kill(os.getpid(), signal.SIGINT)

        assert (await running).status_code == 200
        assert await asyncio.wait_for(task, 3) == 0


async def test_requests_that_take_too_long_are_answered_503() -> None:
    settings = DrainSettings(accept_seconds=0, finish_seconds=0.2)
    async with FakeWorker() as worker, served(Lifecycle(), worker.url, settings) as (client, task):
        body = {"messages": [], "fake": {"hang_before_headers": True}}
        running = asyncio.create_task(client.post("/v1/chat/completions", json=body))
        await eventually(lambda: worker.active == 1)

        os.kill(os.getpid(), signal.SIGTERM)

        answer = await running
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert await asyncio.wait_for(task, 3) == 0


async def test_a_gateway_that_fails_exits_with_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lifecycle = Lifecycle()
    async with served(lifecycle, "http://127.0.0.1:1") as (_, task):
        lifecycle.fail("engine.model: is missing")

        assert await asyncio.wait_for(task, 3) == 2
    assert "specgate: engine.model: is missing\n" in capsys.readouterr().err


class Pipe:
    """A stdin that the parent can close."""

    def __init__(self) -> None:
        self.reads, self.writes = os.pipe()

    def fileno(self) -> int:
        return self.reads

    def close_parent(self) -> None:
        os.close(self.writes)


@pytest.mark.parametrize(
    ("draining", "signals"), [(False, 1), (True, 0)], ids=["parent-died", "drained"]
)
async def test_the_end_of_the_parent_is_noticed(
    monkeypatch: pytest.MonkeyPatch, draining: bool, signals: int
) -> None:
    pipe, received = Pipe(), list[int]()
    monkeypatch.setattr(sys, "stdin", pipe)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, received.append, signal.SIGTERM)
    watch = ParentWatch(Lifecycle(draining=draining))
    os.write(pipe.writes, b"x")
    await asyncio.sleep(0.02)
    assert not received

    pipe.close_parent()
    await asyncio.wait_for(watch.gone(), 1)
    await asyncio.sleep(0.02)

    assert len(received) == signals
    loop.remove_signal_handler(signal.SIGTERM)
    os.close(pipe.reads)
