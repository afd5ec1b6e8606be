import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.live import Links, Reading, Sampler
from gateway.telemetry import Totals
from gateway.upstream import Pool
from tests.fakes.state import Reporting
from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.json_log import json_log
from tests.unit.gateway.live.samples import totals
from tests.unit.gateway.upstream.workers import make_worker, pool_of

LINKS = Links(None, "https://runbook")


def make_sampler(
    pool: Pool, read: Callable[[], Totals] = totals, *, every_seconds: float = 5.0
) -> Sampler:
    return Sampler(pool, lambda: Reading(read(), None), every_seconds=every_seconds, links=LINKS)


@asynccontextmanager
async def pool_in_front_of(*fakes: FakeWorker) -> AsyncIterator[Pool]:
    workers = [make_worker(f"w{at}", fake.url) for at, fake in enumerate(fakes)]
    async with pool_of(workers) as pool:
        for worker in workers:
            pool.mark_up(worker)
        yield pool


def shown(sampler: Sampler) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sampler.page())
    return found


async def test_before_the_first_sample_there_is_a_page() -> None:
    async with pool_of(()) as pool:
        found = shown(make_sampler(pool))

    assert found["now"] == pytest.approx(time.time(), abs=5)
    assert (found["times"], found["workers"]) == ([], [])


async def test_samples_make_intervals() -> None:
    counts = iter([totals(tokens=10), totals(tokens=30, active=2)])
    clock = iter([100.0, 104.0])
    async with pool_of(()) as pool:
        sampler = Sampler(
            pool,
            lambda: Reading(next(counts), None),
            every_seconds=5.0,
            links=LINKS,
            now=lambda: 1012.5,
            clock=lambda: next(clock),
        )
        await sampler.sample(1005.0)
        await sampler.sample(1010.0)

        found = shown(sampler)

    assert (found["now"], found["times"]) == (1012.5, [1010.0])
    assert found["series"]["tokens_per_second"] == [5.0]
    assert found["series"]["active"] == [2]


async def test_drafts_of_a_worker_that_tells_are_counted() -> None:
    async with FakeWorker() as fake, pool_in_front_of(fake) as pool:
        sampler = make_sampler(pool)
        await sampler.sample(1005.0)
        fake.state.counters.drafted_tokens += 20
        fake.state.counters.accepted_tokens += 5
        await sampler.sample(1010.0)

        found = shown(sampler)

    (worker,) = found["workers"]
    assert found["series"]["acceptance"] == {"suffix": [0.25]}
    assert found["series"]["price"] == [0.25]
    assert (worker["worker"], worker["error"]) == ("w0", None)
    assert worker["reported"] == pytest.approx(time.time(), abs=5)
    assert worker["engines"][0]["sources"][0]["verdict"] == "Drafts: 60 % were accepted."


@pytest.mark.parametrize(
    ("reporting", "error"),
    [
        ("fails", "The engine answered 500 on /speculation."),
        ("hangs", "The engine stayed silent for too long."),
        ("garbled", "The engine's report on its drafts cannot be read."),
        ("odd", "The engine's report on its drafts cannot be read."),
    ],
)
async def test_a_worker_that_does_not_tell_costs_only_its_own_part(
    reporting: Reporting, error: str
) -> None:
    async with (
        FakeWorker() as bad,
        FakeWorker() as good,
        pool_in_front_of(bad, good) as pool,
    ):
        sampler = make_sampler(pool, every_seconds=0.4)
        await sampler.sample(1005.0)
        bad.state.reporting = reporting
        began = time.monotonic()
        await sampler.sample(1010.0)
        took = time.monotonic() - began

        first, second = shown(sampler)["workers"]

    assert took < 1.0
    assert first["error"] == error
    assert first["engines"] == second["engines"]  # what it told before
    assert first["reported"] < second["reported"]
    assert second["error"] is None


async def test_a_worker_that_is_down_is_not_asked() -> None:
    async with FakeWorker() as fake, pool_in_front_of(fake) as pool:
        pool.mark_down(pool.workers[0])
        sampler = make_sampler(pool)

        await sampler.sample(1005.0)

        (worker,) = shown(sampler)["workers"]
        assert worker["error"] == "The worker is not up."
        assert fake.state.paths["/speculation"] == 0


async def test_names_of_models_are_bounded() -> None:
    async with pool_of([worker := make_worker("w")]) as pool:
        names = ["a\ud800", "b" * 1000, *(f"c{number}" for number in range(1000))]
        worker.models = {name: {} for name in names}
        sampler = make_sampler(pool)
        await sampler.sample(1005.0)

        shortened = shown(sampler)["workers"][0]["models"]

    assert shortened[:2] == ["a?", "b" * 200]
    assert len(shortened) == 100


async def test_a_worker_that_left_is_forgotten() -> None:
    async with FakeWorker() as fake, pool_in_front_of(fake) as pool:
        sampler = make_sampler(pool)
        await sampler.sample(1005.0)
        pool.leave(pool.workers[0])

        await sampler.sample(1010.0)

        assert shown(sampler)["workers"] == []


async def test_it_samples_at_multiples_of_the_interval() -> None:
    async with pool_of(()) as pool:
        sampler = make_sampler(pool, every_seconds=0.1)
        task = asyncio.create_task(sampler.run())
        await eventually(lambda: len(shown(sampler)["times"]) >= 3)
        task.cancel()
        await asyncio.wait({task})

        times = shown(sampler)["times"]

    assert [round(time * 10, 3) % 1 for time in times] == [0] * len(times)
    assert task.cancelled()


async def test_a_sample_that_fails_is_logged_and_the_next_is_taken() -> None:
    readings = iter([ZeroDivisionError()])

    def read() -> Totals:
        for error in readings:
            raise error
        return totals()

    async with pool_of(()) as pool:
        sampler = make_sampler(pool, read, every_seconds=0.1)
        with json_log() as log:
            task = asyncio.create_task(sampler.run())
            await eventually(lambda: len(shown(sampler)["times"]) >= 1)
            task.cancel()
            await asyncio.wait({task})

    assert len(log.of("live_sample_failed")) == 1
