import asyncio

from tests.fakes.worker import FakeWorker
from tests.unit.gateway.application import running


async def test_each_worker_is_asked_and_errors_are_shown() -> None:
    async with FakeWorker() as worker:
        gone = "http://127.0.0.1:1"
        async with running(worker.url, gone) as gateway:
            answer = await gateway.client.get("/speculation")

    told, silent = answer.json()["workers"]
    assert answer.status_code == 200
    assert told["worker"] == f"127.0.0.1:{worker.port}"
    assert told["engines"][0]["gate"]["price"] == 0.25
    assert silent == {"worker": "127.0.0.1:1", "error": "The engine could not be reached."}


async def test_the_wait_for_a_silent_worker_is_limited() -> None:
    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(stay_silent, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        upstream = {"probe_seconds": 30, "probe_timeout_seconds": 0.05}
        async with running(url, ready=False, upstream=upstream) as gateway:
            answer = await gateway.client.get("/speculation")

    (silent,) = answer.json()["workers"]
    assert silent["error"] == "The engine stayed silent for too long."
