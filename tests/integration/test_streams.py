"""Whole streams: the client gets what the worker sent, however the bytes were split."""

import re
from typing import Any

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, COMPLETIONS, Api, each_api
from tests.integration.running import RunningGateway, running_gateway

_SCRIPTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "long": {"chunks": 300},
    "crlf": {"crlf": True},
    "split_frames": {"split_frames": True},
    "split_characters": {"split_utf8": True},
    "split_both": {"split_utf8": True, "split_frames": True},
    "crlf_split": {"crlf": True, "split_frames": True},
    "comments": {"comments": True},
    "no_text": {"chunks": 0},
    "bursts": {"tokens_per_chunk": 5},
    "odd_text": {"text": ['","usage":{"completion_tokens":9}', "data: [DONE]\n\n", '{"error":1}']},
}
_USAGES: dict[str, dict[str, Any]] = {
    "none": {},
    "asked": {"stream_options": {"include_usage": True}},
    "continuous": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
}
_IDENTITY = re.compile(rb'(chatcmpl-|cmpl-|resp_|msg_)[0-9a-f]{16}|"created(?:_at)?":\d+')


async def _through_and_direct(
    gateway: RunningGateway, worker: FakeWorker, api: Api, body: dict[str, Any]
) -> tuple[bytes, bytes]:
    """The stream of one request through the gateway, and directly from the worker."""
    # Pacing would cut and join chunks that arrive unevenly.
    through = await gateway.client.post(api.path, json=body, headers={"x-pacing": "off"})
    direct = await gateway.client.post(f"{worker.url}{api.path}", json=body)
    assert (through.status_code, direct.status_code) == (200, 200)
    return _comparable(through.content), _comparable(direct.content)


def _comparable(stream: bytes) -> bytes:
    return _IDENTITY.sub(b"", stream)


@pytest.mark.asyncio(loop_scope="module")
@each_api
@pytest.mark.parametrize("script", _SCRIPTS.values(), ids=_SCRIPTS)
async def test_stream_is_what_the_worker_would_have_sent(
    shared_worker: FakeWorker, shared_gateway: RunningGateway, api: Api, script: dict[str, Any]
) -> None:
    body = api.body(stream=True, fake=script, store=False)
    through, direct = await _through_and_direct(shared_gateway, shared_worker, api, body)

    assert through == direct


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("api", [CHAT, COMPLETIONS], ids=lambda api: api.name)
@pytest.mark.parametrize("usage", _USAGES.values(), ids=_USAGES)
async def test_client_gets_the_usage_it_asked_for_and_no_other(
    shared_worker: FakeWorker, shared_gateway: RunningGateway, api: Api, usage: dict[str, Any]
) -> None:
    counted = {"model": "fake-model", "kind": "completion"}
    before = shared_gateway.metric("gateway_tokens_total", **counted)
    body = api.body(stream=True, fake={"no_speculation": True}, **usage)

    through, direct = await _through_and_direct(shared_gateway, shared_worker, api, body)

    assert through == direct
    assert shared_gateway.metric("gateway_tokens_total", **counted) == before + 8


async def test_acceptance_is_counted_without_a_request_for_usage(
    worker: FakeWorker,
) -> None:
    script = {"drafted": 20, "accepted": 15}
    async with running_gateway(worker) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(stream=True, fake=script))

        assert b"speculative_decoding" not in answer.content
        ratio = {"model": "fake-model", "source": "native"}
        assert gateway.metric("gateway_request_acceptance_ratio_count", **ratio) == 1


async def test_gaps_are_counted_by_token_not_by_chunk(worker: FakeWorker) -> None:
    script = {"chunks": 5, "tokens_per_chunk": 4}
    async with running_gateway(worker) as gateway:
        await gateway.client.post(CHAT.path, json=CHAT.body(stream=True, fake=script))

        for stage in ("worker", "client"):
            count = gateway.metric("gateway_inter_token_seconds_count", stage=stage)
            assert count == 5 * 4 - 1


async def test_chunks_are_forwarded_before_the_stream_ends(worker: FakeWorker) -> None:
    script = {"chunks": 3, "hang_after_chunks": 2}
    async with running_gateway(worker) as gateway:
        body = CHAT.body(stream=True, fake=script)
        received = b""
        async with gateway.client.stream("POST", CHAT.path, json=body) as answer:
            pieces = answer.aiter_raw()
            while received.count(b"hello") < 2:
                received += await anext(pieces)

    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["cache-control"] == "no-cache"
