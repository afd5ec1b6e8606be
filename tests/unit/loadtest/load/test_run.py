import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from loadtest.load.answer import Ending
from loadtest.load.client import Client
from loadtest.load.made_up import MadeUpPrompts
from loadtest.load.plan import Arrival, make_plan
from loadtest.load.run import Server, ServerError, find_server, play
from loadtest.load.scenario import Scenario
from tests.fakes.worker import FakeWorker

SERVER = Server("fake-model", counts_tokens=True)


@pytest.fixture
async def client(worker: FakeWorker) -> AsyncIterator[Client]:
    async with Client(worker.url, limit_seconds=5.0) as running:
        yield running


def plan_of(*, rate: float, seconds: float, **traffic: Any) -> list[Arrival]:
    mix = {"name": "a", "prompts": "chat", "output_tokens": {"low": 1, "high": 1}, **traffic}
    stage = {"requests_per_second": rate, "seconds": seconds}
    scenario = Scenario.model_validate(
        {
            "about": "",
            "arrivals": {"process": "constant", "stages": [stage]},
            "objective": {"first_token_ms": 1, "per_token_ms": 1},
            "mix": [mix],
        }
    )
    return make_plan(scenario, MadeUpPrompts(), seed=0)


async def test_the_model_and_counting_streams_are_found_out(client: Client) -> None:
    assert await find_server(client, model=None) == SERVER


@asynccontextmanager
async def strict_server(*, refuses_all: bool) -> AsyncIterator[str]:
    """A server that refuses fields which OpenAI's do not have, or every request."""

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "strict"}]})

    async def chat(request: web.Request) -> web.Response:
        options = (await request.json())["stream_options"]
        if refuses_all or "continuous_usage_stats" in options:
            return web.json_response({"error": {"code": "unknown_field"}}, status=400)
        events = b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n'
        return web.Response(body=events + b"data: [DONE]\n\n", content_type="text/event-stream")

    app = web.Application()
    app.add_routes([web.get("/v1/models", models), web.post("/v1/chat/completions", chat)])
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


async def test_a_server_without_the_option_gets_requests_without_it() -> None:
    async with (
        strict_server(refuses_all=False) as url,
        Client(url, limit_seconds=5.0) as client,
    ):
        server = await find_server(client, model=None)

    assert server == Server("strict", counts_tokens=False)


async def test_a_server_that_refuses_a_plain_request_is_not_tested() -> None:
    async with strict_server(refuses_all=True) as url, Client(url, limit_seconds=5.0) as client:
        with pytest.raises(ServerError, match="unknown_field"):
            await find_server(client, model=None)


async def test_a_server_that_is_not_there_is_not_tested(worker: FakeWorker, client: Client) -> None:
    await worker.stop()

    with pytest.raises(ServerError, match="does not answer"):
        await find_server(client, model=None)


async def test_every_request_is_sent_and_its_outcome_recorded(
    worker: FakeWorker, client: Client
) -> None:
    outcomes = await play(plan_of(rate=100, seconds=0.2), client, SERVER)

    assert len(outcomes) == len(worker.requests) == 20
    assert {outcome.answer.ending for outcome in outcomes} == {Ending.DONE}


async def test_arrivals_do_not_wait_for_answers_and_latency_counts_from_when_they_were_due(
    client: Client,
) -> None:
    slow = {"fake": {"delay_headers_seconds": 0.3}}
    begin = time.monotonic()

    outcomes = await play(plan_of(rate=50, seconds=0.2, body=slow), client, SERVER)

    assert time.monotonic() - begin < 1.5  # one after the other they would take 3 s
    assert all(outcome.answer.total_ms() >= 300 for outcome in outcomes)
    assert all(o.answer.recording.sent_ns >= o.answer.recording.due_ns for o in outcomes)


async def test_a_session_sends_its_turns_one_after_the_other(
    worker: FakeWorker, client: Client
) -> None:
    think = {"low": 0.0, "high": 0.0}
    plan = plan_of(rate=1, seconds=1, prompts="session", turns=3, think_seconds=think)

    outcomes = await play(plan, client, SERVER)

    lengths = [len(request.json()["messages"]) for request in worker.requests]
    assert [outcome.turn for outcome in outcomes] == [0, 1, 2]
    assert lengths == [2, 4, 6]  # each turn adds the reply and a result


async def test_a_session_ends_with_the_turn_that_fails(client: Client) -> None:
    failing = {"fake": {"status": 500}}
    plan = plan_of(rate=1, seconds=1, prompts="session", turns=3, body=failing)

    outcomes = await play(plan, client, SERVER)

    assert [outcome.answer.ending for outcome in outcomes] == [Ending.ERROR]


async def test_only_streams_request_usage(worker: FakeWorker, client: Client) -> None:
    (arrival,) = plan_of(rate=1, seconds=1)
    whole = replace(arrival, traffic=arrival.traffic.model_copy(update={"stream": False}))

    await play([arrival], client, SERVER)
    await play([arrival], client, replace(SERVER, counts_tokens=False))
    await play([whole], client, SERVER)

    options = [request.json().get("stream_options") for request in worker.requests]
    assert options == [
        {"include_usage": True, "continuous_usage_stats": True},
        {"include_usage": True},
        None,
    ]
