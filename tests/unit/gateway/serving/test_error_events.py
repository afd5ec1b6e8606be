import asyncio

from gateway.protocol import KEEP_ALIVE
from tests.unit.gateway.application import running
from tests.unit.gateway.canned_server import CannedServer, ok
from tests.unit.gateway.serving.served import Served


async def test_a_whole_answer_to_a_streaming_request_is_passed_on() -> None:
    models = b'{"data":[{"id":"m"}],"choices":[]}'
    server = CannedServer(ok(models, b"connection: close"))
    async with server, running(server.url) as application:
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
    async with server, running(server.url, stream={"keep_alive_seconds": 0.03}) as application:
        served = await Served(stream=True).by(application.services)

    assert served.sink.body.startswith(KEEP_ALIVE)
    assert served.record.stream_end == "error_event"
