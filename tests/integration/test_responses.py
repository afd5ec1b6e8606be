"""Conversations on `/v1/responses` over sockets: turns, processes, replicas, failures."""

import asyncio
import json
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from tests.fakes.state import DEFAULT_MODEL
from tests.fakes.worker import FakeWorker
from tests.integration.postgres_server import PostgresServer, running_postgres
from tests.integration.process import SERVE, GatewayProcess, gateway_process
from tests.integration.running import RunningGateway, running_gateway
from tests.integration.waiting import eventually

PATH = "/v1/responses"


@pytest.fixture(scope="module")
def shared_postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


def sdk(gateway: RunningGateway | GatewayProcess) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)


async def ask(gateway: RunningGateway | GatewayProcess, **fields: Any) -> httpx.Response:
    return await gateway.client.post(PATH, json={"input": "hi"} | fields)


def inputs(worker: FakeWorker) -> list[Any]:
    return [json.loads(request.body)["input"] for request in worker.requests]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return "sqlite"
    server: PostgresServer = request.getfixturevalue("shared_postgres")
    return server.url


@pytest.mark.parametrize("pacing", ["off", "smooth", "private"])
async def test_the_sdk_continues_what_was_streamed(
    worker: FakeWorker, pacing: str, store: str
) -> None:
    responses = {"store": store, "timeout_seconds": 10.0}
    quick = {"private_tick_ms": 10, "private_start_ms": 10, "private_least_seconds": 0.1}
    async with (
        running_gateway(worker, pacing={"mode": pacing, **quick}, responses=responses) as gateway,
        sdk(gateway) as client,
    ):
        stream = await client.responses.create(model=DEFAULT_MODEL, input="one", stream=True)
        events = [event async for event in stream]
        last = events[-1]
        assert last.type == "response.completed"
        first = last.response
        second = await client.responses.create(
            model=DEFAULT_MODEL, input="two", previous_response_id=first.id
        )
        shown = await client.responses.retrieve(first.id)
        items = [item async for item in client.responses.input_items.list(first.id)]
        await client.responses.delete(second.id)

    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert shown == first
    assert second.previous_response_id == first.id
    assert [item.to_dict()["content"] for item in items] == [
        [{"type": "input_text", "text": "one"}]
    ]
    said = first.output[0].to_dict()
    assert inputs(worker) == [
        "one",
        [{"role": "user", "content": "one"}, said, {"role": "user", "content": "two"}],
    ]


async def test_events_tell_what_they_continue_and_whether_they_are_stored(
    worker: FakeWorker,
) -> None:
    async with running_gateway(worker) as gateway:
        first = (await ask(gateway)).json()["id"]
        answer = await ask(gateway, previous_response_id=first, store=False, stream=True)

    found = [json.loads(line[6:]) for line in answer.text.splitlines() if line[:5] == "data:"]
    marks = [
        (event["response"]["previous_response_id"], event["response"]["store"])
        for event in found
        if "response" in event
    ]
    assert marks == [(first, False)] * 3


async def test_what_is_not_stored_is_relayed_byte_for_byte(worker: FakeWorker) -> None:
    """With the worker's clock and serial number aside, as without this gateway's store."""
    async with running_gateway(worker) as gateway:
        kept = await ask(gateway)
        untouched = await ask(gateway, store=False)

    added = {"store": True}
    varying = {"id", "created_at", "output", "metrics"}
    plain = {k: v for k, v in untouched.json().items() if k not in varying}
    assert {k: v for k, v in kept.json().items() if k not in varying} == plain | added
    assert "store" not in untouched.json()


async def test_a_client_that_goes_on_at_once_is_understood_by_every_process(
    folder: Path, worker: FakeWorker
) -> None:
    async with gateway_process(folder, worker, command=SERVE, processes=2) as gateway:

        async def talk() -> None:
            previous = None
            for _ in range(10):  # a new connection each time: any process may take it
                async with httpx.AsyncClient(base_url=gateway.url, timeout=20.0) as client:
                    body = {"input": "hi", "previous_response_id": previous}
                    answer = await client.post(PATH, json=body)
                assert answer.status_code == 200
                previous = answer.json()["id"]

        await asyncio.gather(*(talk() for _ in range(4)))


async def test_responses_outlive_a_restart(folder: Path, worker: FakeWorker) -> None:
    async with gateway_process(folder, worker) as gateway:
        first = (await ask(gateway)).json()["id"]
    async with gateway_process(folder, worker) as gateway:
        assert (await ask(gateway, previous_response_id=first)).status_code == 200


async def test_what_ends_during_a_drain_is_stored(folder: Path, worker: FakeWorker) -> None:
    path = folder / "responses.sqlite"
    async with gateway_process(folder, worker, responses={"path": str(path)}) as gateway:
        asking = asyncio.create_task(ask(gateway, stream=True, fake={"gap_seconds": 0.05}))
        await eventually(lambda: worker.active == 1)
        gateway.signal(signal.SIGTERM)
        answer = await asking
        await gateway.ended()

    assert "response.completed" in answer.text
    with sqlite3.connect(path) as db:
        ((id,),) = db.execute("SELECT id FROM specgate_responses").fetchall()
    db.close()
    assert id in answer.text


async def test_a_damaged_file_is_one_line_at_the_start(folder: Path, worker: FakeWorker) -> None:
    path = folder / "responses.sqlite"
    path.write_bytes(b"garbage" * 1000)
    responses = {"path": str(path)}
    async with gateway_process(folder, worker, wait_ready=False, responses=responses) as gateway:
        status = await gateway.ended()

    assert status == 2
    assert gateway.said(f"gateway.responses.path: {path}: file is not a database")
    assert not gateway.said("Traceback")


async def test_replicas_continue_each_others_conversations(
    postgres: PostgresServer, worker: FakeWorker
) -> None:
    responses = {"store": postgres.url}
    async with (
        running_gateway(worker, responses=responses) as one,
        running_gateway(worker, responses=responses) as other,
    ):
        first = (await ask(one, input="a")).json()["id"]
        second = (await ask(other, input="b", previous_response_id=first)).json()["id"]
        await ask(one, input="c", previous_response_id=second)
        shown = await other.client.get(f"{PATH}/{first}")

    assert shown.status_code == 200
    assert [item["content"] for item in inputs(worker)[-1] if "role" in item][::2] == [
        "a",
        "b",
        "c",
    ]


async def test_a_database_that_is_away_costs_lookups_and_no_answers(
    postgres: PostgresServer, worker: FakeWorker
) -> None:
    responses = {"store": postgres.url, "timeout_seconds": 1.0}
    async with running_gateway(worker, responses=responses) as gateway:
        first = (await ask(gateway)).json()["id"]
        postgres.kill()
        lost = await ask(gateway)
        refused = await ask(gateway, previous_response_id=first)
        postgres.start()
        for _ in range(20):
            again = await ask(gateway, previous_response_id=first)
            if again.status_code == 200:
                break
        failed = gateway.metric("gateway_responses_stored_total", outcome="failed")

    assert lost.status_code == 200
    assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
    assert again.status_code == 200
    assert failed == 1
