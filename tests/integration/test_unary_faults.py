"""Answers without streaming that break, come late, are huge or are refused."""

import asyncio
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, MESSAGES, Api
from tests.integration.connection import connect
from tests.integration.process import gateway_process
from tests.integration.running import RunningGateway, running_gateway
from tests.integration.waiting import eventually

_MB = 2**20
_AWAY = {"location": "http://127.0.0.1:1/inside"}
_BREAKS = {
    "closed_before_headers": ({"drop_before_headers": True}, 502, "worker_lost"),
    "reset_before_headers": ({"drop_before_headers": True, "reset": True}, 502, "worker_lost"),
    "closed_after_headers": ({"drop_after_headers": True}, 502, "worker_lost"),
    "truncated": ({"truncate_unary": True}, 502, "worker_lost"),
    "reset_in_the_body": ({"truncate_unary": True, "reset": True}, 502, "worker_lost"),
    "hang": ({"hang_before_headers": True}, 504, "timeout"),
    "status_307": ({"status": 307, "headers": _AWAY}, 502, "bad_gateway"),
    "status_500": ({"status": 500}, 502, "bad_gateway"),
    "status_503": ({"status": 503}, 502, "bad_gateway"),
}
_each_error_shape = pytest.mark.parametrize("api", [CHAT, MESSAGES], ids=lambda api: api.name)


@pytest.mark.asyncio(loop_scope="module")
@_each_error_shape
@pytest.mark.parametrize(("script", "status", "code"), _BREAKS.values(), ids=_BREAKS)
async def test_broken_answer_becomes_an_error_of_the_sdk(
    shared_gateway: RunningGateway, api: Api, script: dict[str, Any], status: int, code: str
) -> None:
    answer = await shared_gateway.client.post(api.path, json=api.body(fake=script))
    with pytest.raises(api.error) as raised:
        await api.ask(shared_gateway.url, {"fake": script})

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"]["code"] == code
    assert "location" not in answer.headers
    assert isinstance(raised.value, openai.InternalServerError | anthropic.InternalServerError)
    assert raised.value.status_code == status


async def test_stream_that_fails_before_its_first_event_is_answered_with_a_status(
    worker: FakeWorker,
) -> None:
    script = {"drop_after_headers": True}
    async with running_gateway(worker) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(stream=True, fake=script))

        assert answer.status_code == 502
        assert answer.json()["error"]["code"] == "worker_lost"
        assert len(worker.requests) == 3
        reason = {"worker": f"127.0.0.1:{worker.port}", "reason": "lost"}
        assert gateway.metric("gateway_upstream_failures_total", **reason) == 3


async def test_silent_stream_without_a_byte_is_answered_504(worker: FakeWorker) -> None:
    script = {"hang_after_chunks": 0}
    async with running_gateway(worker, request={"silence_seconds": 0.3}) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(stream=True, fake=script))

        assert answer.status_code == 504
        assert len(worker.requests) == 1  # a slow request is not made worse by a second one
        await eventually(lambda: worker.requests[0].aborted)


async def test_request_longer_than_its_time_is_answered_504(worker: FakeWorker) -> None:
    body = CHAT.body(fake={"hang_before_headers": True})
    async with running_gateway(worker, request={"total_seconds": 0.3}) as gateway:
        answer = await gateway.client.post(CHAT.path, json=body)

    assert answer.status_code == 504


@_each_error_shape
async def test_refusal_of_the_engine_reaches_the_caller(worker: FakeWorker, api: Api) -> None:
    message = "temperature must be non-negative, got -1.0."
    error = {"message": message, "type": "BadRequestError", "param": "temperature", "code": 400}
    script = {"status": 400, "error": {"error": error}}
    async with running_gateway(worker) as gateway:
        answer = await gateway.client.post(api.path, json=api.body(stream=True, fake=script))
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match="temperat"):
            await api.ask(gateway.url, {"fake": script})

    assert answer.json()["error"] == {
        "message": message,
        "type": "invalid_request_error",
        "param": "temperature",
        "code": None,
    }


async def test_context_that_is_too_long_has_its_code(worker: FakeWorker) -> None:
    async with running_gateway(worker) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(max_tokens=10_000))

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"


async def test_errors_of_messages_have_anthropics_format(worker: FakeWorker) -> None:
    async with running_gateway(worker) as gateway:
        body = MESSAGES.body(fake={"status": 429})
        answer = await gateway.client.post(MESSAGES.path, json=body)
        with pytest.raises(anthropic.RateLimitError):
            await MESSAGES.ask(gateway.url, {"fake": {"status": 429}})

    assert answer.json()["type"] == "error"
    assert answer.json()["error"]["type"] == "rate_limit_error"
    assert int(answer.headers["retry-after"]) >= 1


async def test_long_answer_passes_whole(worker: FakeWorker) -> None:
    async with running_gateway(worker, request={"held_answer_bytes": 100_000}) as gateway:
        text = await CHAT.ask(gateway.url, {"fake": {"unary_bytes": 3_000_000, "chunks": 1}})

    assert text == " hello".ljust(3_000_000, "x")


async def test_long_answer_that_breaks_off_is_not_complete(worker: FakeWorker) -> None:
    script = {"unary_bytes": 3_000_000, "truncate_unary": True}
    async with running_gateway(worker, request={"held_answer_bytes": 100_000}) as gateway:
        with pytest.raises(httpx.RemoteProtocolError):
            await gateway.client.post(CHAT.path, json=CHAT.body(fake=script))

        ended = {"endpoint": CHAT.path, "model": "fake-model", "outcome": "upstream_error"}
        await eventually(lambda: gateway.metric("gateway_requests_total", **ended) == 1)
        assert len(worker.requests) == 1


async def test_long_answer_takes_little_memory(worker: FakeWorker, folder: Path) -> None:
    body = CHAT.body(fake={"unary_bytes": 100 * _MB, "chunks": 1})
    request = {"held_answer_bytes": _MB}
    async with gateway_process(folder, worker, request=request) as gateway:
        before = gateway.rss_bytes
        async with connect(gateway.port, receive_bytes=4096) as slow:
            await slow.post(CHAT.path, body)
            await slow.read_until(b"hello")
            await asyncio.sleep(0.5)

            assert gateway.rss_bytes - before < 16 * _MB
