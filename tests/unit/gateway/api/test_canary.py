"""`POST /canary/open`: who may send it, and what it does."""

from pathlib import Path

from tests.fakes.keys import bearer, issue_key
from tests.fakes.worker import FakeWorker
from tests.unit.gateway.application import running


async def test_sources_draft_again_once_opened() -> None:
    async with FakeWorker() as worker, running(worker.url, canary={"shut_after": 1}) as gateway:
        defects = gateway.services.canary.defects
        defects.add("a", "suffix")
        defects.add("b", "head")

        one = await gateway.client.post("/canary/open", params={"model": "a"})
        shown = await gateway.client.get("/speculation")
        every = await gateway.client.post("/canary/open")

    left = {"b": {"head": {"defects": 1, "shut": True}}}
    assert one.json() == {"canary": left}
    assert shown.json()["canary"] == left
    assert every.json() == {"canary": {}}


async def test_only_an_administrator_may_open(tmp_path: Path) -> None:
    file = tmp_path / "keys.jsonl"
    user, admin = issue_key(file), issue_key(file, admin=True)
    async with FakeWorker() as worker, running(worker.url, keys={"file": file}) as gateway:
        statuses = [
            (await gateway.client.post("/canary/open", headers=headers)).status_code
            for headers in ({}, bearer(user), bearer(admin))
        ]

    assert statuses == [401, 403, 200]
