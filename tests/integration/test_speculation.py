"""Over HTTP: predictions reach the worker as tokens, and counts by source reach the client."""

import json
from collections.abc import Callable
from typing import Any

import openai
import pytest

from tests.fakes.coded_steps import coded_step
from tests.fakes.state import DEFAULT_MODEL, Tokenizing
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Api
from tests.integration.running import RunningGateway, running_gateway

_TEXT = "abcdefghij"
_IDS = list(_TEXT.encode())
_PREDICTION: dict[str, Any] = {"type": "content", "content": _TEXT}
_STEPS: dict[str, Any] = {
    "per_step_drafted": [
        coded_step(6, "prediction"),
        coded_step(5, "head", "suffix", border=2),
        coded_step(4, "prediction", "native", border=1),
        3,
    ],
    "per_step_accepted": [4, 3, 2, 0],
}
_SOURCES = {
    "native": {"drafted": 6, "accepted": 1},
    "suffix": {"drafted": 10, "accepted": 6},
    "head": {"drafted": 2, "accepted": 2},
}
_OUTCOME = {"accepted_prediction_tokens": 5, "rejected_prediction_tokens": 5}

both_apis = pytest.mark.parametrize("api", [CHAT, COMPLETIONS], ids=lambda api: api.name)
Ask = Callable[[RunningGateway, Api, dict[str, Any]], Any]


async def _whole(gateway: RunningGateway, api: Api, more: dict[str, Any]) -> dict[str, Any]:
    """A whole answer."""
    answer = await gateway.client.post(api.path, json=api.body(**more))
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


async def _last_chunk(gateway: RunningGateway, api: Api, more: dict[str, Any]) -> dict[str, Any]:
    """The usage chunk of a stream."""
    options = {"include_usage": True}
    body = api.body(stream=True, stream_options=options, **more)
    answer = await gateway.client.post(api.path, json=body)
    assert answer.status_code == 200
    frames = answer.content.split(b"\n\n")
    found: dict[str, Any] = json.loads(frames[-3].removeprefix(b"data: "))
    return found


whole_and_streamed = pytest.mark.parametrize("ask", [_whole, _last_chunk], ids=["whole", "stream"])


@both_apis
@whole_and_streamed
async def test_a_prediction_reaches_the_worker_and_its_outcome_the_client(
    worker: FakeWorker, api: Api, ask: Ask
) -> None:
    async with running_gateway(worker) as gateway:
        answer = await ask(gateway, api, {"prediction": _PREDICTION, "fake": _STEPS})

    sent = worker.requests[0].json()
    assert "prediction" not in sent
    assert sent["vllm_xargs"]["specgate_prediction"] == _IDS
    assert worker.tokenize_requests[0].json() == {
        "model": DEFAULT_MODEL,
        "prompt": _TEXT,
        "add_special_tokens": False,
    }
    assert answer["usage"]["completion_tokens_details"] == _OUTCOME
    assert answer["usage"]["completion_tokens"] == 8


@both_apis
@whole_and_streamed
async def test_drafts_are_counted_by_source(worker: FakeWorker, api: Api, ask: Ask) -> None:
    async with running_gateway(worker) as gateway:
        answer = await ask(gateway, api, {"fake": _STEPS})

        found = answer["metrics"]["speculative_decoding"]
        assert found["sources"] == _SOURCES
        assert found["per_step_drafted"] == [6, 5, 4, 3]
        assert found["per_step_accepted"] == [4, 3, 2, 0]
        assert "prediction" not in json.dumps(answer["usage"])
        for source, count in _SOURCES.items():
            labels = {"model": DEFAULT_MODEL, "source": source}
            drafted = "gateway_request_draft_tokens"
            ratio = "gateway_request_acceptance_ratio"
            assert gateway.metric(f"{drafted}_count", **labels) == 1
            assert gateway.metric(f"{drafted}_sum", **labels) == count["drafted"]
            assert gateway.metric(f"{ratio}_count", **labels) == 1
            assert gateway.metric(f"{ratio}_sum", **labels) == count["accepted"] / count["drafted"]


@whole_and_streamed
async def test_the_rest_of_the_answer_is_the_workers(worker: FakeWorker, ask: Ask) -> None:
    more = {"prediction": _PREDICTION, "fake": {**_STEPS, "chunks": 3}}
    async with running_gateway(worker) as gateway:
        through = await ask(gateway, CHAT, more)
        direct = RunningGateway(worker.url, worker.port, gateway.client, gateway.registry)
        gateway.client.base_url = worker.url
        expected = await ask(direct, CHAT, more)

    expected["usage"]["completion_tokens_details"] = _OUTCOME
    expected["metrics"]["speculative_decoding"]["sources"] = _SOURCES
    expected["metrics"]["speculative_decoding"]["per_step_drafted"] = [6, 5, 4, 3]
    for answer in (through, expected):
        del answer["id"], answer["created"]
    assert through == expected


async def test_the_sdk_reads_the_outcome_of_a_prediction(worker: FakeWorker) -> None:
    parts: list[Any] = [{"type": "text", "text": _TEXT[:4]}, {"type": "text", "text": _TEXT[4:]}]
    async with (
        running_gateway(worker) as gateway,
        openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="-", max_retries=0) as client,
    ):
        answer = await client.chat.completions.create(
            model=DEFAULT_MODEL,
            messages=[{"role": "user", "content": "x"}],
            prediction={"type": "content", "content": parts},
            extra_body={"fake": _STEPS},
        )

    assert worker.requests[0].json()["vllm_xargs"]["specgate_prediction"] == _IDS
    assert answer.usage is not None
    details = answer.usage.completion_tokens_details
    assert details is not None
    assert (details.accepted_prediction_tokens, details.rejected_prediction_tokens) == (5, 5)


@pytest.mark.parametrize("script", [{"drafted": 8, "summary": True}, {"no_speculation": True}])
@whole_and_streamed
async def test_without_the_workers_metrics_there_is_no_outcome(
    worker: FakeWorker, ask: Ask, script: dict[str, Any]
) -> None:
    async with running_gateway(worker) as gateway:
        answer = await ask(gateway, CHAT, {"prediction": _PREDICTION, "fake": script})

    assert worker.requests[0].json()["vllm_xargs"]["specgate_prediction"] == _IDS
    assert "prediction" not in json.dumps(answer["usage"])


@pytest.mark.parametrize("tokenizing", ["fails", "hangs"])
@whole_and_streamed
async def test_a_prediction_that_cannot_be_tokenized_fails_nothing(
    worker: FakeWorker, ask: Ask, tokenizing: Tokenizing
) -> None:
    worker.state.tokenizing = tokenizing
    async with running_gateway(worker, request={"tokenize_seconds": 0.1}) as gateway:
        answer = await ask(gateway, CHAT, {"prediction": _PREDICTION, "fake": _STEPS})

        failures = {"worker": f"127.0.0.1:{worker.port}", "reason": "timeout"}
        assert gateway.metric("gateway_upstream_failures_total", **failures) == 0

    sent = worker.requests[0].json()
    assert "prediction" not in sent
    assert "specgate_prediction" not in sent["vllm_xargs"]
    assert "prediction" not in json.dumps(answer["usage"])


@whole_and_streamed
async def test_worker_lost_between_tokens_and_answer_is_replayed(
    worker: FakeWorker, ask: Ask
) -> None:
    worker.state.drop_next_answers = 1
    async with running_gateway(worker) as gateway:
        answer = await ask(gateway, CHAT, {"prediction": _PREDICTION, "fake": _STEPS})

    sent = [request.json()["vllm_xargs"]["specgate_prediction"] for request in worker.requests]
    assert sent == [_IDS, _IDS]
    assert len(worker.tokenize_requests) == 1
    assert answer["usage"]["completion_tokens_details"] == _OUTCOME


async def test_several_choices_may_have_a_prediction(worker: FakeWorker) -> None:
    async with running_gateway(worker) as gateway:
        await _whole(gateway, CHAT, {"n": 2, "prediction": _PREDICTION})

    assert worker.requests[0].json()["vllm_xargs"]["specgate_prediction"] == _IDS


_TRACED: dict[str, Any] = {
    "speculation": {"trace": True},
    "fake": {"chunks": 6, "gap_seconds": 0.06, "tokens_per_chunk": 5, "text": [" the 狐 👩‍🔬 of"]},
}
_ENTRIES = 6 * ([["suffix", 0]] * 4 + [["target", len(" the 狐 👩‍🔬 of")]])
_USAGES = {
    "no usage": {},
    "usage": {"stream_options": {"include_usage": True}},
    "running usage": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
}


@both_apis
@pytest.mark.parametrize("usage", _USAGES.values(), ids=_USAGES)
@pytest.mark.parametrize("pacing", ["off", "smooth", "private"])
async def test_a_trace_arrives_whole_in_order_and_not_behind_its_text(
    worker: FakeWorker, api: Api, pacing: str, usage: dict[str, Any]
) -> None:
    quick = {"private_tick_ms": 20.0, "private_start_ms": 50.0, "private_least_seconds": 0.8}
    body = api.body(stream=True, pacing=pacing, **_TRACED, **usage)
    async with running_gateway(worker, pacing=quick) as gateway:
        answer = await gateway.client.post(api.path, json=body)

    events = _events(answer.content)
    told: list[list[Any]] = []
    text = ""
    for event in events:
        told += event.get("speculation", {}).get("trace", [])
        text += "".join(_text(choice) for choice in event["choices"])
        assert len(text) <= sum(length for _, length in told)
    assert told == _ENTRIES
    assert text == 6 * _TRACED["fake"]["text"][0]
    chunks = sum(bool(_text(choice)) for event in events for choice in event["choices"])
    assert chunks > 8 if pacing == "smooth" else chunks == 6


@both_apis
async def test_a_whole_answer_has_its_whole_trace(worker: FakeWorker, api: Api) -> None:
    async with running_gateway(worker) as gateway:
        answer = await _whole(gateway, api, _TRACED)

    assert answer["speculation"] == {"trace": _ENTRIES}
    assert worker.requests[0].json()["vllm_xargs"]["specgate_trace"] == 1


@both_apis
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_client_that_does_not_ask_gets_no_trace(
    worker: FakeWorker, api: Api, stream: bool
) -> None:
    forged = {"vllm_xargs": {"specgate_trace": 1}}
    async with running_gateway(worker) as gateway:
        answer = await gateway.client.post(api.path, json=api.body(stream=stream, **forged))

    assert answer.status_code == 200
    assert b'"speculation"' not in answer.content


@pytest.mark.parametrize(
    ("api", "fields"),
    [(CHAT, {"n": 2}), (COMPLETIONS, {"n": 2}), (RESPONSES, {}), (MESSAGES, {})],
    ids=["two chats", "two completions", "responses", "messages"],
)
async def test_a_trace_without_a_place_in_the_answer_is_refused(
    worker: FakeWorker, api: Api, fields: dict[str, Any]
) -> None:
    async with running_gateway(worker) as gateway:
        answer = await gateway.client.post(api.path, json=api.body(**_TRACED, **fields))

    assert answer.status_code == 400
    assert "speculation.trace" in answer.json()["error"]["message"]
    assert not worker.requests


def _events(stream: bytes) -> list[dict[str, Any]]:
    """The chunks of a stream."""
    frames = (frame for frame in stream.split(b"\n\n") if frame.startswith(b"data: {"))
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames]


def _text(choice: dict[str, Any]) -> str:
    text: str = choice["text"] if "text" in choice else choice["delta"].get("content", "")
    return text
