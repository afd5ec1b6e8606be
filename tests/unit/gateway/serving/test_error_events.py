import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.protocol import KEEP_ALIVE, Endpoint
from tests.fakes.worker import FakeWorker
from tests.unit.gateway.application import Application, running
from tests.unit.gateway.canned_server import CannedServer, ok
from tests.unit.gateway.requests import CHAT, MESSAGES
from tests.unit.gateway.serving.served import Served


@asynccontextmanager
async def running_before(server: CannedServer, **settings: Any) -> AsyncIterator[Application]:
    """A gateway before a server whose address is known only once it runs."""
    async with running(server.url, **settings) as application:
        yield application


@pytest.mark.parametrize(
    ("endpoint", "event"),
    [(CHAT, b'data: {"error"'), (MESSAGES, b"event: error\n")],
    ids=["chat", "messages"],
)
@pytest.mark.parametrize(
    "script",
    [
        {"drop_after_chunks": 2},
        {"cut_in_frame": 2},
        {"error_frame_after_chunks": 2},
        {"no_done": True},
    ],
    ids=str,
)
async def test_a_stream_that_breaks_ends_in_one_error_event(
    worker: FakeWorker, endpoint: Endpoint, event: bytes, script: dict[str, Any]
) -> None:
    async with running(worker.url) as application:
        served = await Served(endpoint=endpoint, stream=True, **script).by(application.services)

    frames = served.sink.body.split(b"\n\n")
    assert served.error is None
    assert served.sink.ended
    assert [frame.startswith(event) for frame in frames[-2:]] == [True, False]
    assert sum(frame.startswith(event) for frame in frames) == 1
    assert b"[DONE]" not in served.sink.body
    assert (served.record.stream_end, served.record.status) == ("error_event", 200)
    assert served.record.outcome == "upstream_error"
    assert served.record.attempts == 1


async def test_a_failure_after_a_keep_alive_is_an_error_event(worker: FakeWorker) -> None:
    async with running(worker.url, stream={"keep_alive_seconds": 0.03}) as application:
        served = await Served(stream=True, delay_headers_seconds=0.1, status=400).by(
            application.services
        )

    assert served.sink.body.startswith(KEEP_ALIVE)
    assert served.sink.body.count(b'{"error"') == 1
    assert served.record.stream_end == "error_event"
    assert served.record.outcome == "caller_error"


async def test_a_whole_answer_to_a_streaming_request_is_passed_on() -> None:
    models = b'{"data":[{"id":"m"}],"choices":[]}'
    server = CannedServer(ok(models, b"connection: close"))
    async with server, running_before(server) as application:
        served = await Served(stream=True).by(application.services)

    assert served.error is None
    assert (served.sink.body, served.record.outcome) == (models, "completed")
    assert served.record.stream_end is None


async def test_a_whole_answer_after_a_keep_alive_is_an_error_event() -> None:
    class Slow(CannedServer):
        async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(0.1)
            await super()._serve(reader, writer)

    server = Slow(ok(b'{"data":[{"id":"m"}]}', b"connection: close"))
    async with server, running_before(server, stream={"keep_alive_seconds": 0.03}) as application:
        served = await Served(stream=True).by(application.services)

    assert served.sink.body.startswith(KEEP_ALIVE)
    assert served.record.stream_end == "error_event"
