"""A worker that dies in the middle of a text stream: another one goes on behind what was sent."""

import asyncio
import json
from typing import Any

import pytest

from tests.fakes.script import Script
from tests.fakes.state import DEFAULT_MODEL
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, COMPLETIONS, Api
from tests.integration.running import RunningGateway, running_gateway
from tests.integration.waiting import eventually

WORDS = [" the", " naïve", " 🙂", " end", " of", " it", " all", "."]
WHOLE = "".join(WORDS)
TOKENS = 2 * len(WORDS)
BREAKS: dict[str, dict[str, Any]] = {
    "closed": {"drop_after_chunks": 3},
    "reset": {"drop_after_chunks": 3, "reset": True},
    "half a frame": {"cut_in_frame": 3},
    "half a character": {"cut_in_utf8": 2},
    "proper end too early": {"drop_after_chunks": 3, "clean_end": True},
    "before the first text": {"drop_after_chunks": 0},
    "given up": {"text": WORDS[:4], "finish_reason": "abort"},
    "the last text is lost": {"drop_after_chunks": 7},
    "only the end is lost": {"no_done": True},
    "only usage and the end are lost": {"cut_in_frame": 8},
}

ENDS = ("only the end is lost", "only usage and the end are lost")


def script(**fields: Any) -> Script:
    return Script(**{"text": WORDS, "resumes": True, "tokens_per_chunk": 2, **fields})


def chunks_of(raw: bytes) -> list[dict[str, Any]]:
    lines = [line[6:] for line in raw.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line) for line in lines]


def text_of(chunks: list[dict[str, Any]]) -> str:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return "".join(
        one["text"] if "text" in one else one["delta"].get("content") or "" for one in choices
    )


async def stream(gateway: RunningGateway, api: Api, **fields: Any) -> list[dict[str, Any]]:
    """The chunks of one stream, which has to end well."""
    answer = await gateway.client.post(api.path, json=api.body(stream=True, **fields))
    assert answer.status_code == 200
    assert answer.content.count(b"data: [DONE]\n\n") == 1, answer.text
    assert b"specgate" not in answer.content
    return chunks_of(answer.content)


@pytest.mark.parametrize(
    ("api", "name", "pacing"),
    [(api, name, "off") for api in (CHAT, COMPLETIONS) for name in BREAKS]
    + [(CHAT, "closed", "smooth"), (CHAT, "closed", "private")],
)
async def test_stream_goes_on_with_the_other_worker(api: Api, name: str, pacing: str) -> None:
    async with FakeWorker() as one, FakeWorker() as two, running_gateway(one, two) as gateway:
        one.state.script = two.state.script = script(**BREAKS[name], delay_first_seconds=0.3)
        reading = asyncio.create_task(
            stream(gateway, api, pacing=pacing, stream_options={"include_usage": True})
        )
        await eventually(lambda: len(one.requests) + len(two.requests) == 1)
        first, other = (one, two) if one.requests else (two, one)
        other.state.script = script()

        chunks = await reading

        assert text_of(chunks) == WHOLE
        assert chunks[-1]["usage"]["completion_tokens"] == TOKENS
        finish = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
        assert [reason for reason in finish if reason] == ["stop"]
        assert len({chunk["created"] for chunk in chunks}) == 1
        assert len(first.requests) == 1
        assert len(other.requests) == (name not in ENDS)
        await settled(gateway)
        assert gateway.metric("gateway_stream_terminations_total", outcome="completed") == 1
        resumed = name not in (*ENDS, "before the first text")
        assert gateway.metric("gateway_resumed_streams_total") == resumed


async def test_stream_waits_for_its_only_worker_to_come_back(worker: FakeWorker) -> None:
    worker.state.script = script(hang_after_chunks=3)
    async with running_gateway(worker) as gateway:
        reading = asyncio.create_task(stream(gateway, CHAT))
        await eventually(lambda: worker.active == 1 and worker.requests[0].chunks_sent == 3)
        await worker.stop()
        worker.state.script = script()
        await worker.start()

        assert text_of(await reading) == WHOLE
        assert sent_to(worker, 1)["vllm_xargs"]["specgate_resume"] == [100, 101, 102, 103, 104, 105]


async def test_stream_leaves_a_worker_that_falls_silent() -> None:
    async with (
        FakeWorker() as one,
        FakeWorker() as two,
        running_gateway(one, two, request={"silence_seconds": 0.5}) as gateway,
    ):
        one.state.script = two.state.script = script(hang_after_chunks=3, delay_first_seconds=0.3)
        reading = asyncio.create_task(stream(gateway, CHAT))
        await eventually(lambda: len(one.requests) + len(two.requests) == 1)
        (two if one.requests else one).state.script = script()

        assert text_of(await reading) == WHOLE


async def test_worker_that_begins_anew_is_not_taken_for_one_that_goes_on() -> None:
    async with FakeWorker() as one, FakeWorker() as two, running_gateway(one, two) as gateway:
        broken = script(drop_after_chunks=3, delay_first_seconds=0.3)
        one.state.script = two.state.script = broken
        body = CHAT.body(stream=True)
        asking = asyncio.create_task(gateway.client.post(CHAT.path, json=body))
        await eventually(lambda: len(one.requests) + len(two.requests) == 1)
        (two if one.requests else one).state.script = script(wrong_token=4)

        answer = await asking

    chunks = chunks_of(answer.content)
    assert text_of([chunk for chunk in chunks if "error" not in chunk]) == "".join(WORDS[:3])
    assert [chunk["error"]["code"] for chunk in chunks if "error" in chunk] == ["bad_gateway"]


NOT_TEXT: dict[str, dict[str, Any]] = {
    "functions": {"functions": [{"name": "f"}]},
    "several": {"n": 2},
    "trace": {"speculation": {"trace": True}},
    "ids": {"return_token_ids": True},
}


@pytest.mark.parametrize("name", NOT_TEXT)
async def test_what_is_not_plain_text_ends_in_an_error(worker: FakeWorker, name: str) -> None:
    worker.state.script = script(drop_after_chunks=3)
    async with running_gateway(worker) as gateway:
        body = CHAT.body(stream=True, **NOT_TEXT[name])
        answer = await gateway.client.post(CHAT.path, json=body)

    assert answer.content.count(b'"code": "worker_lost"') == 1
    assert "specgate_ids" not in sent_to(worker, 0)["vllm_xargs"]


async def test_resuming_can_be_turned_off(worker: FakeWorker) -> None:
    worker.state.script = script(drop_after_chunks=3)
    async with running_gateway(worker, stream={"resume": False}) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(stream=True))

    assert answer.content.count(b'"code": "worker_lost"') == 1


async def test_callers_cannot_begin_an_answer_themselves(worker: FakeWorker) -> None:
    async with running_gateway(worker) as gateway:
        body = CHAT.body(stream=True, vllm_xargs={"specgate_resume": [1, 2]})
        await gateway.client.post(CHAT.path, json=body)

    assert "specgate_resume" not in sent_to(worker, 0)["vllm_xargs"]


def sent_to(worker: FakeWorker, number: int) -> dict[str, Any]:
    """The body of a request that the worker got."""
    body: dict[str, Any] = json.loads(worker.requests[number].body)
    return body


async def settled(gateway: RunningGateway) -> None:
    """Wait until the request is counted; its tokens are those of an undisturbed one."""
    counted = {"model": DEFAULT_MODEL, "kind": "completion"}
    await eventually(lambda: gateway.metric("gateway_tokens_total", **counted) > 0)
    assert gateway.metric("gateway_tokens_total", **counted) == TOKENS
