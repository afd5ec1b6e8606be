"""Commands about draft heads: who may send them, and where they go."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.keys import bearer, issue_key
from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.application import Application, running

LOAD = {"folder": "/heads/new"}


async def test_a_command_reaches_all_workers() -> None:
    async with FakeWorker() as first, FakeWorker() as second:
        async with running(first.url, second.url) as gateway:
            await both_up(gateway)
            answer = await gateway.client.post("/heads", json=LOAD)
            assert (await gateway.client.delete("/heads")).status_code == 202
            assert (await gateway.client.post("/heads/forget")).status_code == 202

        assert answer.status_code == 202
        ids = [told["id"] for told in answer.json()["workers"]]
        assert ids == ["1", "1"]
        for worker in (first, second):
            assert worker.state.head_commands == [
                {"action": "load", "folder": "/heads/new", "by": "local"},
                {"action": "unload", "by": "local"},
                {"action": "forget", "by": "local"},
            ]


async def both_up(gateway: Application) -> None:
    await eventually(lambda: all(worker.models for worker in gateway.services.pool.workers))


async def test_the_heads_of_all_workers_are_shown(gateway: Application, worker: FakeWorker) -> None:
    answer = await gateway.client.get("/heads")

    (told,) = answer.json()["workers"]
    (engine,) = told["engines"]
    assert engine["engine"] == 0
    assert engine["heads"]["serving"]["name"] == "shipped"
    assert set(engine) == {"engine", "heads"}


async def test_only_the_workers_of_a_model_are_asked() -> None:
    async with FakeWorker() as first, FakeWorker() as second:
        first.state.models, second.state.models = ["a"], ["b"]
        async with running(first.url, second.url) as gateway:
            await both_up(gateway)
            named = await gateway.client.post("/heads", json={**LOAD, "model": "b"})
            unnamed = await gateway.client.post("/heads", json=LOAD)
            unknown = await gateway.client.delete("/heads", params={"model": "c"})

        assert len(named.json()["workers"]) == 1
        assert (len(first.state.head_commands), len(second.state.head_commands)) == (0, 1)
        assert (unnamed.status_code, unnamed.json()["error"]["param"]) == (400, "model")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")


async def test_before_a_worker_is_up_they_are_answered_503() -> None:
    async with running("http://127.0.0.1:1", ready=False) as gateway:
        answer = await gateway.client.get("/heads")

    assert answer.json()["error"]["code"] == "no_healthy_worker"


async def test_a_worker_that_cannot_be_reached_is_reported(
    gateway: Application, worker: FakeWorker
) -> None:
    for one in gateway.services.pool.workers:
        one.client.shut()

    answer = await gateway.client.post("/heads", json=LOAD)

    (told,) = answer.json()["workers"]
    assert (answer.status_code, told["error"]) == (202, "The engine is shutting down.")


@pytest.mark.parametrize(
    ("method", "path", "content", "param"),
    [
        ("POST", "/heads", b"{}", "folder"),
        ("POST", "/heads", b"", "folder"),
        ("POST", "/heads", b'{"folder": "relative"}', "folder"),
        ("POST", "/heads", b'{"folder": 1}', "folder"),
        ("POST", "/heads", b'{"folder": "/a", "more": 1}', "more"),
        ("POST", "/heads", b"{", None),
        ("POST", "/heads/forget", b'{"folder": "/a"}', "folder"),
    ],
)
async def test_a_wrong_body_is_explained(
    gateway: Application, worker: FakeWorker, method: str, path: str, content: bytes, param: str
) -> None:
    answer = await gateway.client.request(method, path, content=content)

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert worker.state.head_commands == []


async def test_a_large_body_is_refused(gateway: Application) -> None:
    answer = await gateway.client.post("/heads", content=b" " * (1 << 17))

    assert answer.status_code == 413


_CALLS = [("GET", "/heads"), ("POST", "/heads"), ("DELETE", "/heads"), ("POST", "/heads/forget")]


@pytest.mark.parametrize(("method", "path"), _CALLS)
async def test_they_need_an_administrators_key(
    worker: FakeWorker, tmp_path: Path, method: str, path: str
) -> None:
    keys = tmp_path / "keys"
    usual, admin = issue_key(keys), issue_key(keys, admin=True)
    body = LOAD if (method, path) == ("POST", "/heads") else None
    async with running(worker.url, keys={"file": keys}) as gateway:
        answers = [
            await gateway.client.request(method, path, headers=headers, json=body)
            for headers in ({}, bearer(usual), bearer(admin))
        ]

    assert [answer.status_code for answer in answers[:2]] == [401, 403]
    assert answers[1].json()["error"]["code"] == "permission_denied"
    assert answers[2].is_success
    if method != "GET":
        (command,) = worker.state.head_commands
        assert command["by"].startswith("key ")


@pytest.mark.parametrize(("method", "path"), _CALLS)
@pytest.mark.parametrize(
    ("address", "headers", "allowed"),
    [
        ("127.0.0.1", {}, True),
        ("::1", {}, True),
        ("192.0.2.7", {}, False),
        ("odd", {}, False),
        ("127.0.0.1", {"x-forwarded-for": "127.0.0.1"}, False),
        ("127.0.0.1", {"forwarded": "for=127.0.0.1"}, False),
        ("127.0.0.1", {"origin": "http://localhost"}, False),
    ],
)
async def test_without_keys_they_are_for_this_machine_only(
    gateway: Application,
    method: str,
    path: str,
    address: str,
    headers: dict[str, str],
    allowed: bool,
) -> None:
    transport = httpx.ASGITransport(gateway.app, client=(address, 5000))
    body: Any = LOAD if (method, path) == ("POST", "/heads") else None
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        answer = await client.request(method, path, headers=headers, json=body)

    assert answer.status_code == ((200 if method == "GET" else 202) if allowed else 403)


async def test_traffic_is_deleted_under_the_tenants_name_at_the_workers(
    gateway: Application, worker: FakeWorker
) -> None:
    sent = [
        await gateway.client.delete("/heads/traffic", params={"tenant": "acme"}),
        await gateway.client.delete("/heads/traffic"),
    ]

    assert [answer.status_code for answer in sent] == [202, 202]
    assert worker.state.head_commands == [
        {
            "action": "forget_traffic",
            "tenant": gateway.services.digests.of("acme"),
            "by": "local",
        },
        {"action": "forget_traffic", "by": "local"},
    ]
