"""Predictions on their way to the worker, and counts by source on their way back, over HTTP."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.fakes.coded_steps import coded_step
from tests.fakes.state import DEFAULT_MODEL, Tokenizing
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, COMPLETIONS, Api
from tests.integration.process import gateway_process
from tests.integration.running import RunningGateway, running_gateway
from tests.integration.waiting import eventually

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
_FATE = {"accepted_prediction_tokens": 5, "rejected_prediction_tokens": 5}

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


both_ways = pytest.mark.parametrize("ask", [_whole, _last_chunk], ids=["whole", "stream"])


@both_apis
@both_ways
async def test_a_prediction_reaches_the_worker_and_its_fate_the_client(
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
    assert answer["usage"]["completion_tokens_details"] == _FATE
    assert answer["usage"]["completion_tokens"] == 8


@both_apis
@both_ways
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


@both_ways
async def test_all_but_sources_and_fate_is_the_workers_answer(worker: FakeWorker, ask: Ask) -> None:
    more = {"prediction": _PREDICTION, "fake": {**_STEPS, "chunks": 3}}
    async with running_gateway(worker) as gateway:
        through = await ask(gateway, CHAT, more)
        direct = RunningGateway(worker.url, worker.port, gateway.client, gateway.registry)
        gateway.client.base_url = worker.url
        expected = await ask(direct, CHAT, more)

    expected["usage"]["completion_tokens_details"] = _FATE
    expected["metrics"]["speculative_decoding"]["sources"] = _SOURCES
    expected["metrics"]["speculative_decoding"]["per_step_drafted"] = [6, 5, 4, 3]
    for answer in (through, expected):
        del answer["id"], answer["created"]
    assert through == expected


async def test_the_sdk_reads_what_became_of_a_prediction(worker: FakeWorker) -> None:
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
@both_ways
async def test_a_worker_that_does_not_say_leaves_the_fate_open(
    worker: FakeWorker, ask: Ask, script: dict[str, Any]
) -> None:
    async with running_gateway(worker) as gateway:
        answer = await ask(gateway, CHAT, {"prediction": _PREDICTION, "fake": script})

    assert worker.requests[0].json()["vllm_xargs"]["specgate_prediction"] == _IDS
    assert "prediction" not in json.dumps(answer["usage"])


@pytest.mark.parametrize("tokenizing", ["fails", "hangs", "garbled", "odd", "drops"])
@both_ways
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


@both_ways
async def test_worker_lost_between_tokens_and_answer_is_replayed(
    worker: FakeWorker, ask: Ask
) -> None:
    worker.state.drop_next_answers = 1
    async with running_gateway(worker) as gateway:
        answer = await ask(gateway, CHAT, {"prediction": _PREDICTION, "fake": _STEPS})

    sent = [request.json()["vllm_xargs"]["specgate_prediction"] for request in worker.requests]
    assert sent == [_IDS, _IDS]
    assert len(worker.tokenize_requests) == 1
    assert answer["usage"]["completion_tokens_details"] == _FATE


@both_apis
async def test_a_bad_prediction_is_answered_400(worker: FakeWorker, api: Api) -> None:
    async with running_gateway(worker) as gateway:
        body = api.body(prediction={"type": "content", "content": [{"type": "image_url"}]})
        answer = await gateway.client.post(api.path, json=body)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "prediction.content"
    assert worker.requests == worker.tokenize_requests == []


@pytest.mark.parametrize("most", [-1, 257, 2**64, 1.5, "8"], ids=str)
async def test_a_bad_bound_of_draft_tokens_is_answered_400(worker: FakeWorker, most: Any) -> None:
    async with running_gateway(worker) as gateway:
        body = CHAT.body(speculation={"max_draft_tokens": most})
        answer = await gateway.client.post(CHAT.path, json=body)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "speculation.max_draft_tokens"
    assert worker.requests == []


async def test_speculation_that_is_off_needs_no_tokens(worker: FakeWorker) -> None:
    off: list[dict[str, Any]] = [{"mode": "off"}, {"max_draft_tokens": 0}]
    async with running_gateway(worker) as gateway:
        for speculation in off:
            body = CHAT.body(prediction=_PREDICTION, speculation=speculation)
            assert (await gateway.client.post(CHAT.path, json=body)).status_code == 200

    assert worker.tokenize_requests == []
    assert all("specgate_prediction" not in r.json()["vllm_xargs"] for r in worker.requests)


async def test_several_choices_may_have_a_prediction(worker: FakeWorker) -> None:
    async with running_gateway(worker) as gateway:
        await _whole(gateway, CHAT, {"n": 2, "prediction": _PREDICTION})

    assert worker.requests[0].json()["vllm_xargs"]["specgate_prediction"] == _IDS


async def test_a_huge_prediction_is_cut_and_the_log_says_so(
    worker: FakeWorker, folder: Path
) -> None:
    huge = {"type": "content", "content": "secret " * 1_000_000}
    request = {"max_prediction_tokens": 100}
    async with gateway_process(folder, worker, request=request) as gateway:
        answer = await gateway.client.post(
            CHAT.path, json=CHAT.body(prediction=huge), headers={"x-request-id": "the-id"}
        )
        await eventually(lambda: gateway.logged("prediction_cut") != [])
        (line,) = gateway.logged("prediction_cut")

    assert answer.status_code == 200
    assert len(worker.requests[0].json()["vllm_xargs"]["specgate_prediction"]) == 100
    assert len(worker.tokenize_requests[0].body) < 2_000
    assert (line["request_id"], line["characters"], line["tokens"]) == ("the-id", 7_000_000, 100)
    assert "secret" not in "".join(gateway.lines)


async def test_a_dropped_prediction_is_one_warning(worker: FakeWorker, folder: Path) -> None:
    worker.state.tokenizing = "fails"
    async with gateway_process(folder, worker) as gateway:
        await gateway.client.post(
            CHAT.path,
            json=CHAT.body(prediction=_PREDICTION),
            headers={"x-request-id": "the-id"},
        )
        await eventually(lambda: gateway.logged("request") != [])
        (line,) = gateway.logged("prediction_dropped")

    assert (line["request_id"], line["level"]) == ("the-id", "warning")
    assert _TEXT not in "".join(gateway.lines)
