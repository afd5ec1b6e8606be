import json
from dataclasses import asdict
from types import SimpleNamespace
from typing import cast

import pytest

from gateway import __version__
from gateway.supervisor import Supervisor, SupervisorFacts
from gateway.types import WorkerId
from tests.fakes.worker import FakeWorker
from tests.unit.gateway.application import Application, running

either_path = pytest.mark.parametrize("path", ["/health", "/health/ready", "/ping"])


async def test_a_process_is_alive_without_workers() -> None:
    async with running("http://127.0.0.1:1", ready=False) as gateway:
        answer = await gateway.client.get("/health/live")

    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


@either_path
async def test_a_gateway_with_a_worker_is_ready(gateway: Application, path: str) -> None:
    answer = await gateway.client.get(path)

    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})


@either_path
async def test_a_gateway_without_a_worker_is_not_ready(path: str) -> None:
    async with running("http://127.0.0.1:1", ready=False) as gateway:
        answer = await gateway.client.get(path)

    assert (answer.status_code, answer.json()) == (503, {"status": "no healthy worker"})


async def test_the_version_is_that_of_the_gateway(gateway: Application) -> None:
    assert (await gateway.client.get("/version")).json() == {"version": __version__}


async def test_a_draining_gateway_is_not_ready(gateway: Application) -> None:
    gateway.lifecycle.draining = True

    answer = await gateway.client.get("/health/ready")

    assert (answer.status_code, answer.json()) == (503, {"status": "draining"})
    assert (await gateway.client.get("/health/live")).status_code == 200


async def test_each_worker_is_described(gateway: Application, worker: FakeWorker) -> None:
    gateway.services.pool.workers[0].in_flight = 3

    answer = await gateway.client.get("/health/workers")

    assert answer.json() == {
        "workers": [
            {
                "worker": worker.url.removeprefix("http://"),
                "up": True,
                "in_flight": 3,
                "ejected": False,
                "ejections": 0,
                "models": ["fake-model"],
            }
        ]
    }


async def test_a_supervised_worker_shows_its_supervisor(gateway: Application) -> None:
    facts = SupervisorFacts("waiting", None, 2, "stalled")
    gateway.services.supervisor = cast(Supervisor, SimpleNamespace(facts=lambda: facts))

    answer = await gateway.client.get("/health/workers")

    assert answer.json()["workers"][0]["supervisor"] == asdict(facts)


async def test_health_shows_no_path(gateway: Application) -> None:
    gateway.services.pool.workers[0].models[WorkerId("m")] = {"id": "m", "root": "/srv/m"}

    text = json.dumps((await gateway.client.get("/health/workers")).json())

    assert "/srv" not in text
