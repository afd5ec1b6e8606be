"""Keep-alive comments before the first event, and replays and errors after a comment."""

import asyncio

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, Api, each_api
from tests.integration.connection import connect
from tests.integration.running import running_gateway

_OFTEN = {"keep_alive_seconds": 0.05}
_COMMENT = b": keep-alive\n\n"


@pytest.mark.parametrize("wait", ["delay_headers_seconds", "delay_first_seconds"])
async def test_comments_are_sent_until_the_first_event(worker: FakeWorker, wait: str) -> None:
    pieces: list[str] = []
    script = {wait: 0.25}
    async with running_gateway(worker, stream=_OFTEN) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(stream=True, fake=script))
        await CHAT.read_stream(gateway.url, {"fake": script}, pieces)

    comments = answer.content.count(_COMMENT)
    assert comments >= 1
    assert answer.content.startswith(_COMMENT * comments)
    assert "".join(pieces) == " hello" * 8


async def test_comments_are_sent_while_no_worker_is_up(worker: FakeWorker) -> None:
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


async def test_replay_is_possible_after_comments(worker: FakeWorker) -> None:
    async with (
        running_gateway(worker, stream=_OFTEN) as gateway,
        connect(gateway.port) as connection,
    ):
        worker.state.stall = True
        await connection.post(CHAT.path, CHAT.body(stream=True))
        await connection.read_until(_COMMENT)
        assert worker.active == 1

        await worker.stop()
        worker.state.stall = False
        await worker.start()
        await connection.read_until(CHAT.end)

    assert len(worker.requests) == 2


@each_api
async def test_refusal_after_a_comment_is_an_error_event(worker: FakeWorker, api: Api) -> None:
    script = {"delay_headers_seconds": 0.15, "status": 400}
    async with running_gateway(worker, stream=_OFTEN) as gateway:
        answer = await gateway.client.post(api.path, json=api.body(stream=True, fake=script))
        with pytest.raises(api.error):
            await api.read_stream(gateway.url, {"fake": script}, [])

    assert answer.status_code == 200
    assert b'"error":' in answer.content
    assert api.end not in answer.content
