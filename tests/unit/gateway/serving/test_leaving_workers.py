"""A worker that leaves the pool hands its text streams over, and finishes the rest."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.upstream import Pool, Worker
from tests.fakes.script import Script
from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.application import Application, running
from tests.unit.gateway.serving.served import Served

WORDS = [" the", " naïve", " end", " of", " it", "."]
RESUMED = "gateway_resumed_streams_total"


def script(**fields: Any) -> Script:
    return Script(**{"text": WORDS, "resumes": True, **fields})


@asynccontextmanager
async def two_workers(**settings: Any) -> AsyncIterator[tuple[Application, dict[str, FakeWorker]]]:
    """A gateway before two workers, by their names, both up; each stops after three words."""
    async with (
        FakeWorker() as one,
        FakeWorker() as two,
        running(one.url, two.url, **settings) as application,
    ):
        fakes = {fake.url.removeprefix("http://"): fake for fake in (one, two)}
        await eventually(lambda: all(worker.up for worker in application.services.pool.workers))
        for fake in fakes.values():
            fake.state.script = script(hang_after_chunks=3)
        yield application, fakes


async def hanging(pool: Pool, fakes: dict[str, FakeWorker]) -> tuple[Worker, FakeWorker]:
    """The worker that is in the middle of an answer, and the other one's fake."""
    await eventually(
        lambda: any(fake.requests and fake.requests[0].chunks_sent == 3 for fake in fakes.values())
    )
    (worker,) = [each for each in pool.workers if fakes[each.id].requests]
    (other,) = [fake for name, fake in fakes.items() if name != worker.id]
    return worker, other


def text_of(served: Served) -> str:
    return served.sink.body.decode()


async def test_a_text_stream_goes_on_with_another_worker() -> None:
    async with two_workers() as (application, fakes):
        pool = application.services.pool
        serving = asyncio.create_task(Served(stream=True).by(application.services))
        worker, other = await hanging(pool, fakes)
        other.state.script = script()

        pool.leave(worker)
        served = await serving

        assert served.error is None
        assert (served.record.outcome, served.record.attempts) == ("completed", 2)
        for word in WORDS[1:]:
            assert text_of(served).count(f'"{word}"') <= 1
        assert application.registry.get_sample_value(RESUMED) == 1
        assert await gone(fakes[worker.id])


async def test_it_stays_until_another_worker_is_up() -> None:
    async with two_workers() as (application, fakes):
        pool = application.services.pool
        serving = asyncio.create_task(Served(stream=True).by(application.services))
        worker, other = await hanging(pool, fakes)
        other.state.script = script()
        (spare,) = [each for each in pool.workers if each is not worker]
        pool.mark_down(spare)

        pool.leave(worker)
        await asyncio.sleep(0.05)
        assert fakes[worker.id].active == 1

        pool.mark_up(spare)
        served = await serving

        assert (served.record.outcome, served.record.attempts) == ("completed", 2)


@pytest.mark.parametrize(
    ("stream", "more", "slow"),
    [
        (True, {"n": 2}, {"gap_seconds": 0.05}),
        (False, {}, {"delay_headers_seconds": 0.3}),
    ],
    ids=["several", "whole"],
)
async def test_what_cannot_go_on_elsewhere_ends_where_it_is(
    stream: bool, more: dict[str, Any], slow: dict[str, Any]
) -> None:
    async with two_workers() as (application, fakes):
        pool = application.services.pool
        for fake in fakes.values():
            fake.state.script = script(**slow)
        serving = asyncio.create_task(Served(stream=stream, more=more).by(application.services))
        await eventually(lambda: any(fake.active for fake in fakes.values()))
        (worker,) = [each for each in pool.workers if fakes[each.id].active]
        await asyncio.sleep(0.1)

        pool.leave(worker)
        served = await serving

        assert (served.error, served.record.attempts) == (None, 1)
        assert served.record.outcome == "completed"


async def test_moves_are_limited_as_retries_are() -> None:
    async with two_workers(request={"max_replays": 0}) as (application, fakes):
        pool = application.services.pool
        for fake in fakes.values():
            fake.state.script = script(gap_seconds=0.05)
        serving = asyncio.create_task(Served(stream=True).by(application.services))
        await eventually(
            lambda: any(fake.requests and fake.requests[0].chunks_sent for fake in fakes.values())
        )
        (worker,) = [each for each in pool.workers if fakes[each.id].requests]

        pool.leave(worker)
        served = await serving

        assert (served.record.outcome, served.record.attempts) == ("completed", 1)


async def gone(fake: FakeWorker) -> bool:
    """Whether the worker's client has hung up, so that it stops computing."""
    await eventually(lambda: fake.active == 0)
    return True
