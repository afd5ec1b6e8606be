"""Over HTTP: watched requests are asked again without drafts, and differences are found."""

import asyncio
import json
from functools import partial
from typing import Any

import pytest

from tests.fakes.state import DEFAULT_MODEL, RecordedRequest
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, COMPLETIONS, MESSAGES, Api
from tests.integration.running import RunningGateway, running_gateway
from tests.integration.waiting import eventually
from tests.unit.gateway.json_log import json_log

ALL: dict[str, Any] = {"share": 1.0, "most_time": 1.0}
GREEDY: dict[str, Any] = {"temperature": 0}
DRAFTED: dict[str, Any] = {"chunks": 3, "tokens_per_chunk": 4}
WRONG: dict[str, Any] = {**DRAFTED, "wrong_token": 5}

both_apis = pytest.mark.parametrize("api", [CHAT, COMPLETIONS], ids=lambda api: api.name)
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


async def ask(gateway: RunningGateway, api: Api, **body: Any) -> bytes:
    answer = await gateway.client.post(api.path, json=api.body(**body))
    assert answer.status_code == 200, answer.text
    return answer.content


def compared(gateway: RunningGateway, result: str) -> float:
    labels = {"model": DEFAULT_MODEL, "result": result}
    return gateway.metric("gateway_canary_requests_total", **labels)


def skipped(gateway: RunningGateway, reason: str) -> float:
    labels = {"model": DEFAULT_MODEL, "reason": reason}
    return gateway.metric("gateway_canary_skipped_total", **labels)


def has_found(gateway: RunningGateway, count: int) -> bool:
    return compared(gateway, "differs") == count


@both_apis
@both_ways
async def test_a_right_answer_is_the_same_the_second_time(
    worker: FakeWorker, api: Api, stream: bool
) -> None:
    async with running_gateway(worker, canary=ALL) as gateway:
        await ask(gateway, api, stream=stream, fake=DRAFTED, max_completion_tokens=50, **GREEDY)
        await eventually(lambda: compared(gateway, "same") == 1)

        first, second = (request.json() for request in worker.requests)
        assert gateway.metric("gateway_requests_total") == 0
        total = sum(
            sample.value
            for family in gateway.registry.collect()
            for sample in family.samples
            if sample.name == "gateway_requests_total"
        )
        assert total == 1
    assert first["vllm_xargs"]["specgate_trace"] == 1
    assert second["vllm_xargs"] == {
        "specgate_mode": "off",
        "specgate_tenant": first["vllm_xargs"]["specgate_tenant"],
        "specgate_indexed": 0,
    }
    assert second["max_tokens"] == 12
    assert second["cache_salt"] != first["cache_salt"]
    assert "stream" not in second
    assert "max_completion_tokens" not in second
    ids = [request.headers["x-request-id"] for request in worker.requests]
    assert ids[1] == f"canary-1-{ids[0]}"


@both_apis
@both_ways
async def test_the_client_gets_the_bytes_that_it_would_have_got(
    worker: FakeWorker, api: Api, stream: bool
) -> None:
    body = {"stream": stream, "fake": DRAFTED, **GREEDY}
    async with running_gateway(worker, canary=ALL) as gateway:
        watched = await ask(gateway, api, **body)
        plain = await ask(gateway, api, **body, speculation={"canary": False})

    assert worker.requests[0].json()["return_token_ids"] is True
    assert "return_token_ids" not in worker.requests[-1].json()
    assert _without_names(watched) == _without_names(plain)


def _without_names(answer: bytes) -> list[Any]:
    """The objects of an answer without id and time."""
    found = []
    for line in answer.splitlines():
        if (text := line.removeprefix(b"data: ")).startswith(b"{"):
            found.append(json.loads(text) | {"id": "", "created": 0})
    return found


@both_apis
@both_ways
async def test_a_client_that_asks_itself_gets_token_ids_and_trace(
    worker: FakeWorker, api: Api, stream: bool
) -> None:
    more = {"return_token_ids": True, "speculation": {"trace": True}}
    async with running_gateway(worker, canary=ALL) as gateway:
        answer = await ask(gateway, api, stream=stream, fake=DRAFTED, **GREEDY, **more)
        await eventually(lambda: compared(gateway, "same") == 1)

    assert b'"token_ids":[100,101' in answer
    assert b'"speculation":{"trace":[["suffix"' in answer


@both_apis
@both_ways
async def test_a_wrong_accepted_token_is_found_with_its_source_and_place(
    worker: FakeWorker, api: Api, stream: bool
) -> None:
    with json_log() as log:
        async with running_gateway(worker, canary=ALL) as gateway:
            await ask(gateway, api, stream=stream, fake=WRONG, **GREEDY)
            await eventually(lambda: compared(gateway, "differs") == 1)
            shown = (await gateway.client.get("/speculation")).json()["canary"]

    (line,) = log.of("canary_differs")
    ids = [request.headers["x-request-id"] for request in worker.requests]
    assert line["level"] == "error"
    assert (line["request_id"], line["canary_id"]) == tuple(ids)
    assert (line["place"], line["source"], line["margin"]) == (5, "suffix", 3.0)
    assert shown == {DEFAULT_MODEL: {"suffix": {"defects": 1, "shut": False}}}


async def test_a_near_tie_is_no_defect(worker: FakeWorker) -> None:
    async with running_gateway(worker, canary=ALL) as gateway:
        await ask(gateway, CHAT, fake={**WRONG, "wrong_margin": 0.3}, **GREEDY)
        await eventually(lambda: compared(gateway, "near_tie") == 1)

        assert compared(gateway, "differs") == 0


async def test_the_settings_margin_counts_more_than_the_dtypes(worker: FakeWorker) -> None:
    async with running_gateway(worker, canary={**ALL, "margin": 0.25}) as gateway:
        await ask(gateway, CHAT, fake={**WRONG, "wrong_margin": 0.3}, **GREEDY)
        await eventually(lambda: compared(gateway, "differs") == 1)


async def test_the_workers_dtype_sets_the_margin(worker: FakeWorker) -> None:
    worker.state.dtype = "float32"
    async with running_gateway(worker, canary=ALL) as gateway:
        await ask(gateway, CHAT, fake={**WRONG, "wrong_margin": 0.3}, **GREEDY)
        await eventually(lambda: compared(gateway, "differs") == 1)


@pytest.mark.parametrize(
    ("api", "body"),
    [
        (CHAT, {}),
        (CHAT, {"temperature": 0.7}),
        (CHAT, {**GREEDY, "n": 2}),
        (CHAT, {**GREEDY, "pacing": "private"}),
        (CHAT, {**GREEDY, "speculation": {"mode": "off"}}),
        (CHAT, {**GREEDY, "speculation": {"canary": False}}),
        (COMPLETIONS, {**GREEDY, "echo": True}),
        (MESSAGES, GREEDY),
    ],
    ids=["unsaid", "sampled", "choices", "private", "off", "forbidden", "echo", "messages"],
)
async def test_who_cannot_be_compared_is_not_watched(
    worker: FakeWorker, api: Api, body: dict[str, Any]
) -> None:
    async with running_gateway(worker, canary=ALL) as gateway:
        await ask(gateway, api, stream=False, **body)

    sent = worker.requests[0].json()
    assert "return_token_ids" not in sent
    assert "specgate_trace" not in sent.get("vllm_xargs", {})


async def test_plain_vllm_is_not_asked_again(worker: FakeWorker) -> None:
    worker.state.is_plain = True
    async with running_gateway(worker, canary=ALL) as gateway:
        await ask(gateway, CHAT, fake=DRAFTED, **GREEDY)

        assert skipped(gateway, "plain_worker") == 1
    assert len(worker.requests) == 1


async def test_only_so_many_tokens_are_compared(worker: FakeWorker) -> None:
    async with running_gateway(worker, canary={**ALL, "max_tokens": 4}) as gateway:
        await ask(gateway, CHAT, fake=DRAFTED, **GREEDY)
        await eventually(lambda: len(worker.requests) == 2)

    assert worker.requests[1].json()["max_tokens"] == 4


def askings(worker: FakeWorker) -> list[RecordedRequest]:
    """The second askings so far."""
    return [one for one in worker.requests if one.headers["x-request-id"].startswith("canary-")]


def has_askings(worker: FakeWorker, count: int) -> bool:
    return len(askings(worker)) == count


def was_aborted(request: RecordedRequest) -> bool:
    return request.aborted


async def test_a_request_aborts_the_asking_at_once(worker: FakeWorker) -> None:
    async with running_gateway(worker, canary=ALL) as gateway:
        await ask(gateway, CHAT, fake={**DRAFTED, "plain_seconds": 60}, **GREEDY)
        for number in (1, 2, 3):
            await eventually(partial(has_askings, worker, number))
            await ask(gateway, CHAT)
            await eventually(partial(was_aborted, askings(worker)[-1]))

        await eventually(lambda: skipped(gateway, "busy") == 1)
    assert len(askings(worker)) == 3


async def test_nothing_is_asked_while_the_worker_has_other_work(worker: FakeWorker) -> None:
    worker.state.active = 1
    async with running_gateway(worker, canary=ALL) as gateway:
        await ask(gateway, CHAT, fake=DRAFTED, **GREEDY)
        await eventually(lambda: worker.state.paths["/metrics"] > 0)
        assert len(worker.requests) == 1
        worker.state.active = 0
        await eventually(lambda: compared(gateway, "same") == 1)


async def test_identical_answers_raise_no_alarm(worker: FakeWorker) -> None:
    async with running_gateway(worker, canary=ALL) as gateway:
        await asyncio.gather(*(ask(gateway, CHAT, fake=DRAFTED, **GREEDY) for _ in range(50)))
        await eventually(lambda: compared(gateway, "same") == 50, within_seconds=60)

        assert compared(gateway, "differs") == compared(gateway, "near_tie") == 0


async def test_a_source_is_shut_and_opened(worker: FakeWorker) -> None:
    async with running_gateway(worker, canary={**ALL, "shut_after": 2}) as gateway:
        for count in (1, 2):
            await ask(gateway, CHAT, fake=WRONG, **GREEDY)
            await eventually(partial(has_found, gateway, count))
        labels = {"model": DEFAULT_MODEL, "source": "suffix"}
        assert gateway.metric("gateway_canary_shut", **labels) == 1
        await ask(gateway, CHAT)
        opened = await gateway.client.post("/canary/open")
        await ask(gateway, CHAT)

        assert opened.json() == {"canary": {}}
        assert gateway.metric("gateway_canary_shut", **labels) == 0
    shut, again = (request.json()["vllm_xargs"] for request in worker.requests[-2:])
    assert (shut["specgate_mode"], again["specgate_mode"]) == ("head", "auto")
