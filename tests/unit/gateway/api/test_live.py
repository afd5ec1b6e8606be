from pathlib import Path

from gateway.admission import KeyLimits
from tests.fakes.keys import issue_key
from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.application import Application, running


async def test_it_needs_no_key(worker: FakeWorker, tmp_path: Path) -> None:
    issue_key(tmp_path / "keys", KeyLimits())
    async with running(worker.url, keys={"file": tmp_path / "keys"}) as gateway:
        answer = await gateway.client.get("/live")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json()["every_seconds"] == 5.0


async def test_links_are_those_of_the_settings(worker: FakeWorker) -> None:
    live = {"dashboards_url": "https://d/x", "runbook_url": "https://r/y"}
    async with running(worker.url, live=live) as gateway:
        found = (await gateway.client.get("/live")).json()

    assert found["links"] == {"dashboards": "https://d/x", "runbook": "https://r/y"}


async def test_nobody_counts_or_logs_who_looks_at_it(gateway: Application) -> None:
    await gateway.client.get("/live")

    assert "gateway_requests_total{" not in (await gateway.client.get("/metrics")).text


async def test_samples_are_taken_in_the_background(worker: FakeWorker) -> None:
    async with running(worker.url, live={"sample_seconds": 0.1}) as gateway:
        await eventually(lambda: worker.state.paths["/speculation"] >= 4)
        found = (await gateway.client.get("/live")).json()

    assert found["workers"][0]["worker"] == f"127.0.0.1:{worker.port}"
    assert found["times"]
