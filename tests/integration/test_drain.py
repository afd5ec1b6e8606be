"""SIGTERM: not ready at once, accepting a little longer, what runs finishes, exit status 0."""

import asyncio
import signal
from pathlib import Path

import httpx
import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, Api, each_api
from tests.integration.process import gateway_process
from tests.integration.waiting import eventually

_STREAM = {"chunks": 40, "gap_seconds": 0.02}
_ENDLESS = {"chunks": 100_000, "gap_seconds": 0.02}


async def test_drain_finishes_what_runs_and_exits_0(worker: FakeWorker, folder: Path) -> None:
    drain = {"accept_seconds": 0.4, "finish_seconds": 5.0}
    pieces: list[str] = []
    async with gateway_process(folder, worker, drain=drain) as gateway:
        reading = asyncio.create_task(CHAT.read_stream(gateway.url, {"fake": _STREAM}, pieces))
        await eventually(lambda: worker.active == 1)

        gateway.signal(signal.SIGTERM)
        await eventually(lambda: gateway.logged("draining") != [])
        ready = await gateway.client.get("/health/ready")
        late = await gateway.client.post(CHAT.path, json=CHAT.body())
        await reading
        status = await gateway.ended()

        assert ready.status_code == 503
        assert ready.json() == {"status": "draining"}
        assert late.status_code == 200
        assert "".join(pieces) == " hello" * 40
        assert status == 0


async def test_no_connection_is_accepted_after_the_accept_time(
    worker: FakeWorker, folder: Path
) -> None:
    drain = {"accept_seconds": 0.1, "finish_seconds": 5.0}
    async with gateway_process(folder, worker, drain=drain) as gateway:
        reading = asyncio.create_task(CHAT.read_stream(gateway.url, {"fake": _STREAM}, []))
        await eventually(lambda: worker.active == 1)

        gateway.signal(signal.SIGTERM)
        await asyncio.sleep(0.5)

        async with httpx.AsyncClient(base_url=gateway.url, verify=False) as stranger:
            with pytest.raises(httpx.ConnectError):
                await stranger.get("/health/live")
        await reading
        assert await gateway.ended() == 0


@each_api
async def test_stream_longer_than_the_finish_time_gets_the_error_event(
    worker: FakeWorker, folder: Path, api: Api
) -> None:
    drain = {"accept_seconds": 0.0, "finish_seconds": 0.3}
    async with gateway_process(folder, worker, drain=drain) as gateway:
        reading = asyncio.create_task(api.read_stream(gateway.url, {"fake": _ENDLESS}, []))
        await eventually(lambda: worker.active == 1)

        gateway.signal(signal.SIGTERM)
        with pytest.raises(api.error, match="shutting down"):
            await reading

        assert await gateway.ended() == 0
        await eventually(lambda: worker.requests[0].aborted, within_seconds=1.0)


async def test_unary_call_longer_than_the_finish_time_gets_503(
    worker: FakeWorker, folder: Path
) -> None:
    drain = {"accept_seconds": 0.0, "finish_seconds": 0.3}
    body = CHAT.body(fake={"hang_before_headers": True})
    async with gateway_process(folder, worker, drain=drain) as gateway:
        asking = asyncio.create_task(gateway.client.post(CHAT.path, json=body))
        await eventually(lambda: worker.active == 1)

        gateway.signal(signal.SIGTERM)
        answer = await asking

        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "overloaded"
        assert "retry-after" in answer.headers
        assert await gateway.ended() == 0


async def test_queued_request_is_told_when_the_drain_ends(worker: FakeWorker, folder: Path) -> None:
    drain = {"accept_seconds": 0.0, "finish_seconds": 0.3}
    admission = {"max_running_requests": 1}
    async with gateway_process(folder, worker, drain=drain, admission=admission) as gateway:
        running = asyncio.create_task(
            gateway.client.post(CHAT.path, json=CHAT.body(stream=True, fake=_ENDLESS))
        )
        await eventually(lambda: worker.active == 1)
        queued = asyncio.create_task(gateway.client.post(CHAT.path, json=CHAT.body(fake=_ENDLESS)))
        await asyncio.sleep(0.2)

        gateway.signal(signal.SIGTERM)
        answer = await queued
        await running

        assert answer.status_code == 503
        assert await gateway.ended() == 0


async def test_second_signal_ends_at_once(worker: FakeWorker, folder: Path) -> None:
    drain = {"accept_seconds": 30.0, "finish_seconds": 30.0}
    async with gateway_process(folder, worker, drain=drain) as gateway:
        reading = asyncio.create_task(CHAT.read_stream(gateway.url, {"fake": _ENDLESS}, []))
        await eventually(lambda: worker.active == 1)
        gateway.signal(signal.SIGTERM)
        await eventually(lambda: gateway.logged("draining") != [])

        gateway.signal(signal.SIGTERM)
        with pytest.raises(CHAT.error, match="shutting down"):
            await reading

        await gateway.ended(within_seconds=10)
        assert [line for line in gateway.lines if '"level": "error"' in line] == []


async def test_interrupt_from_a_terminal_does_not_wait_for_load_balancers(
    worker: FakeWorker, folder: Path
) -> None:
    drain = {"accept_seconds": 30.0, "finish_seconds": 30.0}
    async with gateway_process(folder, worker, drain=drain) as gateway:
        gateway.signal(signal.SIGINT)

        assert await gateway.ended(within_seconds=3.0) == 0
