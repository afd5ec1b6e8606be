"""Comments while nothing flows, and what becomes of errors that come after the first comment."""

import asyncio

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, Api, each_api
from tests.integration.connection import connect
from tests.integration.running import running_gateway
from tests.integration.waiting import eventually

_OFTEN = {"keep_alive_seconds": 0.1}
_COMMENT = b": keep-alive\n\n"


@each_api
@pytest.mark.parametrize("wait", ["delay_headers_seconds", "delay_first_seconds"])
async def test_comments_flow_until_the_first_event(worker: FakeWorker, api: Api, wait: str) -> None:
    pieces: list[str] = []
    script = {wait: 0.45}
    async with running_gateway(worker, stream=_OFTEN) as gateway:
        answer = await gateway.client.post(api.path, json=api.body(stream=True, fake=script))
        await api.read_stream(gateway.url, {"fake": script}, pieces)

    assert 3 <= answer.content.count(_COMMENT) <= 4
    assert answer.content.startswith(_COMMENT)
    assert "".join(pieces) == " hello" * 8


async def test_comments_flow_between_events_and_only_there(worker: FakeWorker) -> None:
    script = {"chunks": 3, "gap_seconds": 0.25}
    async with running_gateway(worker, stream=_OFTEN) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(stream=True, fake=script))

    assert answer.content.count(_COMMENT) == 4
    assert answer.content.replace(_COMMENT, b"").count(b"\n\n") == 1 + 3 + 1


async def test_no_comment_while_events_flow(worker: FakeWorker) -> None:
    script = {"chunks": 15, "gap_seconds": 0.03}
    async with running_gateway(worker, stream=_OFTEN) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(stream=True, fake=script))

    assert _COMMENT not in answer.content


async def test_comments_flow_in_the_queue_of_a_dead_worker(worker: FakeWorker) -> None:
    pieces: list[str] = []
    async with running_gateway(worker, stream=_OFTEN) as gateway:
        await worker.stop()
        reading = asyncio.create_task(CHAT.read_stream(gateway.url, {}, pieces))
        async with connect(gateway.port) as connection:
            await connection.post(CHAT.path, CHAT.body(stream=True))
            await connection.read_until(_COMMENT)
        await worker.start()
        await reading

    assert "".join(pieces) == " hello" * 8


@each_api
async def test_replay_is_possible_after_comments(worker: FakeWorker, api: Api) -> None:
    pieces: list[str] = []
    script = {"delay_first_seconds": 0.3}
    async with running_gateway(worker, stream=_OFTEN) as gateway:
        reading = asyncio.create_task(api.read_stream(gateway.url, {"fake": script}, pieces))
        await eventually(lambda: worker.active == 1)
        await asyncio.sleep(0.15)

        await worker.stop()
        await worker.start()
        await reading

    assert "".join(pieces) == " hello" * 8
    assert len(worker.requests) == 2


@each_api
@pytest.mark.parametrize("status", [400, 500])
async def test_refusal_after_a_comment_is_an_error_event(
    worker: FakeWorker, api: Api, status: int
) -> None:
    script = {"delay_headers_seconds": 0.25, "status": status}
    async with running_gateway(worker, stream=_OFTEN) as gateway:
        answer = await gateway.client.post(api.path, json=api.body(stream=True, fake=script))
        with pytest.raises(api.error):
            await api.read_stream(gateway.url, {"fake": script}, [])

    assert answer.status_code == 200
    assert answer.content.count(b'"error":') + answer.content.count(b'"error": ') >= 1
    assert api.end not in answer.content
