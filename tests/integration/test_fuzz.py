"""A small sample of what `make fuzz` plays; each case is seeded, so that a failure comes again."""

from collections.abc import AsyncIterator
from itertools import islice

import pytest_asyncio

from bench.fuzz import answers, requests
from bench.fuzz.clients import play_clients
from bench.fuzz.evil_worker import EvilWorker
from bench.fuzz.plan import HOSTILE
from bench.fuzz.workers import play_workers
from tests.fakes.worker import FakeWorker
from tests.integration.running import RunningGateway, running_gateway

_KEY = "sg-not-checked"


@pytest_asyncio.fixture
async def evil() -> AsyncIterator[EvilWorker]:
    async with EvilWorker() as running:
        yield running


def _crashes(gateway: RunningGateway) -> float:
    """Requests that ended with an exception that nothing handled."""
    return sum(
        sample.value
        for metric in gateway.registry.collect()
        for sample in metric.samples
        if sample.labels.get("outcome") == "internal_error" and sample.name.endswith("_total")
    )


async def test_requests_cut_and_split_end_well(worker: FakeWorker) -> None:
    async with running_gateway(worker, **HOSTILE) as gateway:
        cases = islice(requests.at_every_byte(_KEY), 0, None, 31)
        findings = await play_clients(gateway.port, worker, cases, key=_KEY)

        assert findings.first == []
        assert _crashes(gateway) == 0


async def test_hostile_requests_are_refused_or_answered(worker: FakeWorker) -> None:
    async with running_gateway(worker, **HOSTILE) as gateway:
        cases = requests.random_requests(_KEY, seed=1, first=0, count=500)
        findings = await play_clients(gateway.port, worker, cases, key=_KEY)

        assert findings.first == []
        assert _crashes(gateway) == 0


async def test_answers_cut_and_split_have_one_ending(evil: EvilWorker) -> None:
    async with running_gateway(evil, **HOSTILE) as gateway:
        cases = islice(answers.at_every_byte(), 0, None, 97)
        findings = await play_workers(gateway.port, evil, cases, key=_KEY)

        assert findings.first == []
        assert _crashes(gateway) == 0


async def test_hostile_answers_have_one_ending(evil: EvilWorker) -> None:
    async with running_gateway(evil, **HOSTILE) as gateway:
        cases = answers.random_answers(seed=1, first=0, count=300)
        findings = await play_workers(gateway.port, evil, cases, key=_KEY)

        assert findings.first == []
        assert _crashes(gateway) == 0


async def test_frames_around_every_bound_arrive_whole(evil: EvilWorker) -> None:
    async with running_gateway(evil, **HOSTILE) as gateway:
        cases = islice(answers.at_every_bound(), 0, None, 13)
        findings = await play_workers(gateway.port, evil, cases, key=_KEY, at_once=1)

        assert findings.first == []
