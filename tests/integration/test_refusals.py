"""What the gateway refuses by itself: in OpenAI's shape, before the worker hears of it."""

import asyncio
import json
from typing import Any

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, COMPLETIONS, MESSAGES, Api, each_api
from tests.integration.connection import connect
from tests.integration.running import RunningGateway, running_gateway

_BAD_BODIES = {
    "empty": b"",
    "no_json": b"hello",
    "half": b'{"model": "fake-model", "messages": [',
    "trailing": b'{"messages": []} {}',
    "no_object": b"[1, 2]",
    "null": b"null",
    "not_utf8": b'{"messages": "\xff\xfe"}',
    "utf16": '{"messages": []}'.encode("utf-16"),
    "nan": b'{"messages": [], "temperature": NaN}',
    "comment": b'{"messages": [] /* none */}',
    "deep": b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "single_quotes": b"{'messages': []}",
}
_BAD_FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "model": ({"model": 1}, "model"),
    "stream": ({"stream": "yes"}, "stream"),
    "stream_options": ({"stream_options": []}, "stream_options"),
    "n": ({"n": "two"}, "n"),
    "n_bool": ({"n": True}, "n"),
    "messages": ({"messages": None}, "messages"),
    "vllm_xargs": ({"vllm_xargs": "x"}, "vllm_xargs"),
    "cache_salt": ({"cache_salt": 5}, "cache_salt"),
    "speculation": ({"speculation": True}, "speculation"),
    "speculation_name": ({"speculation": {"speed": 1}}, "speculation.speed"),
    "speculation_mode": ({"speculation": {"mode": "fast"}}, "speculation.mode"),
    "speculation_most": (
        {"speculation": {"max_draft_tokens": -1}},
        "speculation.max_draft_tokens",
    ),
}


def _assert_openai_shape(body: bytes) -> dict[str, Any]:
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return dict(error)


@pytest.mark.asyncio(loop_scope="module")
@each_api
@pytest.mark.parametrize("body", _BAD_BODIES.values(), ids=_BAD_BODIES)
async def test_body_that_is_no_json_object_is_answered_400(
    shared_worker: FakeWorker, shared_gateway: RunningGateway, api: Api, body: bytes
) -> None:
    answer = await shared_gateway.client.post(api.path, content=body)

    assert answer.status_code == 400
    assert _assert_openai_shape(answer.content)["type"] == "invalid_request_error"
    assert shared_worker.requests == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("fields", "param"), _BAD_FIELDS.values(), ids=_BAD_FIELDS)
async def test_bad_field_is_named(
    shared_worker: FakeWorker, shared_gateway: RunningGateway, fields: dict[str, Any], param: str
) -> None:
    answer = await shared_gateway.client.post(CHAT.path, json={**CHAT.body(), **fields})

    assert answer.status_code == 400
    assert _assert_openai_shape(answer.content)["param"] == param
    assert shared_worker.requests == []


@pytest.mark.asyncio(loop_scope="module")
async def test_unknown_model_is_answered_404(
    shared_worker: FakeWorker, shared_gateway: RunningGateway
) -> None:
    answer = await shared_gateway.client.post(CHAT.path, json=CHAT.body() | {"model": "gpt-9"})
    shown = await shared_gateway.client.get("/v1/models/gpt-9")

    for found in (answer, shown):
        assert found.status_code == 404
        assert _assert_openai_shape(found.content)["code"] == "model_not_found"
    assert shared_worker.requests == []


async def test_model_may_be_left_out_where_there_is_one(worker: FakeWorker) -> None:
    async with running_gateway(worker) as gateway:
        answer = await gateway.client.post(CHAT.path, json={"messages": []})

    assert answer.status_code == 200


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", ["/", "/v1", "/v1/chat", "/v1/files", "/_fake/state", "//"])
async def test_unknown_path_is_answered_404(shared_gateway: RunningGateway, path: str) -> None:
    answer = await shared_gateway.client.post(shared_gateway.url + path, json={})

    assert answer.status_code == 404
    assert _assert_openai_shape(answer.content)["code"] == "not_found"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
async def test_other_method_is_answered_405(shared_gateway: RunningGateway, method: str) -> None:
    answer = await shared_gateway.client.request(method, CHAT.path)

    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


async def test_body_announced_too_large_is_refused_unread(worker: FakeWorker) -> None:
    async with (
        running_gateway(worker, admission={"max_body_bytes": 1000}) as gateway,
        connect(gateway.port) as connection,
    ):
        head = f"POST {CHAT.path} HTTP/1.1\r\nhost: x\r\ncontent-length: 5000000\r\n\r\n"
        await connection.send(head.encode())
        answer = await connection.read_to_end()

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer
    assert _assert_openai_shape(answer.partition(b"\r\n\r\n")[2])["code"] == "request_too_large"


async def test_body_that_grows_too_large_is_refused(worker: FakeWorker) -> None:
    async with (
        running_gateway(worker, admission={"max_body_bytes": 1000}) as gateway,
        connect(gateway.port) as connection,
    ):
        head = f"POST {CHAT.path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        await connection.send(head.encode() + (b"1f4\r\n" + b"x" * 500 + b"\r\n") * 3)
        answer = await connection.read_to_end()

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert worker.requests == []


async def test_body_at_the_limit_passes(worker: FakeWorker) -> None:
    body = json.dumps(CHAT.body())
    async with running_gateway(worker, admission={"max_body_bytes": 1000}) as gateway:
        answer = await gateway.client.post(CHAT.path, content=body.ljust(1000))

    assert answer.status_code == 200


async def test_body_that_comes_too_slowly_is_answered_408(worker: FakeWorker) -> None:
    async with (
        running_gateway(worker, admission={"body_timeout_seconds": 0.3}) as gateway,
        connect(gateway.port) as connection,
    ):
        head = f"POST {CHAT.path} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n"
        await connection.send(head.encode() + b"{")
        answer = await connection.read_until(b'"request_timeout"}}')

    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_what_is_no_http_is_answered_in_the_same_shape(worker: FakeWorker) -> None:
    async with running_gateway(worker) as gateway, connect(gateway.port) as connection:
        await connection.send(b"\x16\x03\x01 what is this\r\n\r\n")
        answer = await connection.read_to_end()

    assert answer.startswith(b"HTTP/1.1 400 ")
    _assert_openai_shape(answer.partition(b"\r\n\r\n")[2])


async def test_gateway_lives_through_all_of_it(worker: FakeWorker) -> None:
    async with running_gateway(worker) as gateway:
        bodies = list(_BAD_BODIES.values()) * 5
        answers = await asyncio.gather(
            *(gateway.client.post(COMPLETIONS.path, content=body) for body in bodies)
        )
        after = await gateway.client.post(CHAT.path, json=CHAT.body())

        assert {answer.status_code for answer in answers} == {400}
        assert after.status_code == 200
        assert gateway.metric("gateway_rejections_total", reason="invalid_request") == len(bodies)


@pytest.mark.asyncio(loop_scope="module")
async def test_refusal_on_messages_has_the_shape_of_anthropic_too(
    shared_gateway: RunningGateway,
) -> None:
    answer = await shared_gateway.client.post(MESSAGES.path, content=b"{")

    assert answer.json()["type"] == "error"
