"""A gateway process drains on SIGTERM: it turns unready, finishes requests, and exits with 0."""

import asyncio
import errno
import signal
import socket
from pathlib import Path

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT
from tests.integration.process import gateway_process
from tests.integration.waiting import eventually

_STREAM = {"chunks": 40, "gap_seconds": 0.02}
_ENDLESS = {"chunks": 100_000, "gap_seconds": 0.02}


def _is_refused(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


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
    drain = {"accept_seconds": 0.0, "finish_seconds": 10.0}
    async with gateway_process(folder, worker, drain=drain) as gateway:
        script = {"stall_after_chunks": 1}
        reading = asyncio.create_task(CHAT.read_stream(gateway.url, {"fake": script}, []))
        await eventually(lambda: worker.active == 1)

        gateway.signal(signal.SIGTERM)
        await eventually(lambda: _is_refused(gateway.port))
        worker.state.stall = False
        await reading
        assert await gateway.ended() == 0


async def test_stream_longer_than_the_finish_time_gets_the_error_event(
    worker: FakeWorker, folder: Path
) -> None:
    drain = {"accept_seconds": 0.0, "finish_seconds": 0.3}
    async with gateway_process(folder, worker, drain=drain) as gateway:
        reading = asyncio.create_task(CHAT.read_stream(gateway.url, {"fake": _ENDLESS}, []))
        await eventually(lambda: worker.active == 1)

        gateway.signal(signal.SIGTERM)
        with pytest.raises(CHAT.error, match="shutting down"):
            await reading

        assert await gateway.ended() == 0
        await eventually(lambda: worker.requests[0].aborted)


async def test_running_and_queued_calls_get_503_when_the_drain_ends(
    worker: FakeWorker, folder: Path
) -> None:
    drain = {"accept_seconds": 0.0, "finish_seconds": 0.3}
    admission = {"max_running_requests": 1}
    body = CHAT.body(fake={"hang_before_headers": True})
    async with gateway_process(folder, worker, drain=drain, admission=admission) as gateway:
        asking = [asyncio.create_task(gateway.client.post(CHAT.path, json=body)) for _ in range(2)]
        await eventually(lambda: worker.active == 1)
        while "gateway_queue_depth 1.0" not in (await gateway.client.get("/metrics")).text:
            pass

        gateway.signal(signal.SIGTERM)
        answers = await asyncio.gather(*asking)

        assert [answer.status_code for answer in answers] == [503, 503]
        assert answers[0].json()["error"]["code"] == "overloaded"
        assert "retry-after" in answers[0].headers
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
        await gateway.ended()

        assert [line for line in gateway.lines if '"level": "error"' in line] == []


async def test_interrupt_from_a_terminal_does_not_wait_for_load_balancers(
    worker: FakeWorker, folder: Path
) -> None:
    drain = {"accept_seconds": 30.0, "finish_seconds": 30.0}
    async with gateway_process(folder, worker, drain=drain) as gateway:
        gateway.signal(signal.SIGINT)

        assert await gateway.ended() == 0
