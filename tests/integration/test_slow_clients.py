"""A client that reads slowly holds up its own stream only, uses little memory, and is dropped."""

import asyncio
from pathlib import Path

import pytest

from tests.fakes.state import RecordedRequest
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT
from tests.integration.connection import connect
from tests.integration.process import gateway_process
from tests.integration.running import running_gateway
from tests.integration.waiting import eventually

_MB = 2**20
_FLOOD = {"chunks": 1_000_000, "text": ["x" * 1000], "gap_seconds": 0.0}
_SMALL_BUFFER = 4096


async def _until_sending_stops(request: RecordedRequest) -> None:
    sent = -1
    async with asyncio.timeout(10.0):
        while sent != request.chunks_sent:
            sent = request.chunks_sent
            await asyncio.sleep(0.2)


async def test_memory_stays_bounded_and_others_are_served(worker: FakeWorker, folder: Path) -> None:
    async with gateway_process(folder, worker) as gateway:
        await gateway.client.post(CHAT.path, json=CHAT.body(stream=True))
        before = gateway.rss_bytes
        async with connect(gateway.port, receive_bytes=_SMALL_BUFFER) as stuck:
            await stuck.post(CHAT.path, CHAT.body(stream=True, fake=_FLOOD))
            await stuck.read_until(b"xxx")
            await _until_sending_stops(worker.requests[1])
            await CHAT.read_stream(gateway.url, {}, [])

            assert gateway.rss_bytes - before < 8 * _MB


async def test_slow_client_gets_the_whole_stream(worker: FakeWorker) -> None:
    script = {"chunks": 2000, "text": ["x" * 1000]}
    async with running_gateway(worker) as gateway:
        async with connect(gateway.port, receive_bytes=_SMALL_BUFFER) as slow:
            await slow.post(CHAT.path, CHAT.body(stream=True, fake=script))
            await asyncio.sleep(0.3)
            whole = b""
            while b"data: [DONE]" not in whole[-100:]:
                whole += await slow.reader.read(2**16)

        assert whole.count(b"x" * 1000) == 2000


async def test_client_that_reads_nothing_is_dropped(worker: FakeWorker) -> None:
    stream = {"client_stuck_seconds": 0.4, "keep_alive_seconds": 0.1}
    async with (
        running_gateway(worker, stream=stream) as gateway,
        connect(gateway.port, receive_bytes=_SMALL_BUFFER) as stuck,
    ):
        await stuck.post(CHAT.path, CHAT.body(stream=True, fake=_FLOOD))
        await eventually(lambda: worker.active == 1)

        await eventually(lambda: worker.active == 0)

        assert worker.requests[0].aborted
        assert gateway.metric("gateway_stream_terminations_total", outcome="cancelled") == 1
        assert gateway.metric("gateway_inflight_requests") == 0
        with pytest.raises(ConnectionResetError):
            await stuck.read_to_end()


async def test_client_that_reads_nothing_of_a_long_answer_is_dropped(
    worker: FakeWorker,
) -> None:
    script = {"unary_bytes": 20 * _MB, "chunks": 1}
    async with (
        running_gateway(
            worker,
            stream={"client_stuck_seconds": 0.4},
            request={"held_answer_bytes": _MB},
        ) as gateway,
        connect(gateway.port, receive_bytes=_SMALL_BUFFER) as stuck,
    ):
        await stuck.post(CHAT.path, CHAT.body(fake=script))
        await stuck.read_until(b"hello")

        await eventually(lambda: gateway.metric("gateway_inflight_requests") == 0)

        ended = {"endpoint": CHAT.path, "model": "fake-model", "outcome": "cancelled"}
        assert gateway.metric("gateway_requests_total", **ended) == 1
        with pytest.raises(ConnectionResetError):
            await stuck.read_to_end()


async def test_slow_client_that_reads_on_is_not_dropped(worker: FakeWorker) -> None:
    stream = {"client_stuck_seconds": 0.4, "keep_alive_seconds": 0.1}
    async with (
        running_gateway(worker, stream=stream) as gateway,
        connect(gateway.port, receive_bytes=_SMALL_BUFFER) as slow,
    ):
        await slow.post(CHAT.path, CHAT.body(stream=True, fake=_FLOOD))
        for _ in range(12):
            await slow.reader.readexactly(300_000)
            await asyncio.sleep(0.1)

        assert worker.active == 1


async def test_client_of_a_silent_worker_is_not_dropped(worker: FakeWorker) -> None:
    stream = {"client_stuck_seconds": 0.1, "keep_alive_seconds": 0.05}
    script = {"chunks": 2, "gap_seconds": 0.4}
    pieces: list[str] = []
    async with running_gateway(worker, stream=stream) as gateway:
        await CHAT.read_stream(gateway.url, {"fake": script}, pieces)

    assert "".join(pieces) == " hello" * 2
