from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.keys import bearer, issue_key
from tests.fakes.worker import FakeWorker
from tests.unit.gateway.application import running


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as started:
        started.state.models = ["org/model", "other"]
        yield started


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/"])
async def test_models_are_listed(worker: FakeWorker, path: str) -> None:
    async with running(worker.url) as gateway:
        answer = await gateway.client.get(path)

    listed = answer.json()
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["org/model", "other"]


async def test_a_model_with_a_slash_in_its_name_is_shown(worker: FakeWorker) -> None:
    async with running(worker.url) as gateway:
        answer = await gateway.client.get("/v1/models/org/model")

    assert (answer.status_code, answer.json()["id"]) == (200, "org/model")


async def test_an_unknown_model_is_not_found(worker: FakeWorker) -> None:
    async with running(worker.url) as gateway:
        answer = await gateway.client.get("/v1/models/" + "x" * 5000)

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    assert len(answer.json()["error"]["message"]) < 300


async def test_before_a_worker_is_up_listing_is_answered_503() -> None:
    async with running("http://127.0.0.1:1", ready=False) as gateway:
        answer = await gateway.client.get("/v1/models")

    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_healthy_worker")
    assert answer.headers["retry-after"] == "5"


@pytest.mark.parametrize(
    ("header", "prefix", "status"),
    [("authorization", "Bearer ", 200), ("x-api-key", "", 200), ("x-other", "", 401)],
)
async def test_models_need_a_key(
    worker: FakeWorker, tmp_path: Path, header: str, prefix: str, status: int
) -> None:
    text = issue_key(tmp_path / "keys")
    async with running(worker.url, keys={"file": tmp_path / "keys"}) as gateway:
        answer = await gateway.client.get("/v1/models", headers={header: prefix + text})

    assert answer.status_code == status


async def test_a_key_for_one_model_lists_only_that(worker: FakeWorker, tmp_path: Path) -> None:
    text = issue_key(tmp_path / "keys", models=("other",))
    async with running(worker.url, keys={"file": tmp_path / "keys"}) as gateway:
        headers = bearer(text)
        listed = await gateway.client.get("/v1/models", headers=headers)
        hidden = await gateway.client.get("/v1/models/org/model", headers=headers)

    assert [model["id"] for model in listed.json()["data"]] == ["other"]
    assert hidden.status_code == 404
