import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from loadtest.chaos.crowd import Crowd
from loadtest.load import Arrival, Client, Ending, MadeUpPrompts, load_scenario, make_plan
from loadtest.load.run import Server
from tests.fakes.worker import FakeWorker
from tests.integration.running import running_gateway
from tests.integration.waiting import eventually

PLAN = make_plan(
    load_scenario("chat").with_arrivals(requests_per_second=50, seconds=0.2),
    MadeUpPrompts(),
    seed=0,
)


@asynccontextmanager
async def crowd_of(url: str, plan: Sequence[Arrival] = PLAN) -> AsyncIterator[Crowd]:
    async with Client(url, limit_seconds=5.0, connections="fresh") as client:
        yield Crowd(client, Server("fake-model", counts_tokens=True), plan, PLAN[0])


@asynccontextmanager
async def running_crowd(
    plan: Sequence[Arrival] = PLAN, *, stall: bool = False
) -> AsyncIterator[tuple[FakeWorker, Crowd, asyncio.Task[None]]]:
    """A crowd that sends to a gateway before a worker; the test ends it."""
    async with (
        FakeWorker() as worker,
        running_gateway(worker) as gateway,
        crowd_of(gateway.url, plan) as crowd,
    ):
        worker.state.stall = stall
        yield worker, crowd, asyncio.create_task(crowd.run())


async def test_it_sends_on_and_on_until_it_is_stopped() -> None:
    async with running_crowd() as (_, crowd, running):
        await eventually(lambda: crowd.began > len(PLAN))
        crowd.stop()
        await asyncio.wait_for(running, 3)

    assert len(crowd.outcomes) == crowd.began
    assert {outcome.answer.ending for outcome in crowd.outcomes} == {Ending.DONE}


async def test_nothing_is_sent_to_a_gateway_that_is_not_there() -> None:
    async with crowd_of("http://127.0.0.1:9") as crowd:
        running = asyncio.create_task(crowd.run())
        await asyncio.sleep(0.2)
        crowd_began = crowd.began
        running.cancel()
        await asyncio.wait({running})

    assert crowd_began == 0


async def test_a_worker_that_is_away_is_no_reason_to_wait() -> None:
    """The gateway holds such requests itself; that is what is tested."""
    async with FakeWorker() as worker, running_gateway(worker) as gateway:
        await worker.stop()
        async with crowd_of(gateway.url) as crowd:
            running = asyncio.create_task(crowd.run())
            await eventually(lambda: crowd.began > 3)
            running.cancel()
            await asyncio.wait({running})


async def test_a_probe_is_a_request_like_others_and_there_is_one_at_a_time() -> None:
    async with running_crowd(PLAN[:1]) as (_, crowd, running):
        await eventually(lambda: crowd.began > 0)
        before = crowd.began

        crowd.probe()
        crowd.probe()

        assert crowd.began == before + 1
        crowd.stop()
        await running
    assert len(crowd.outcomes) == crowd.began


async def test_running_requests_are_counted_by_their_start() -> None:
    async with running_crowd(stall=True) as (worker, crowd, running):
        await eventually(lambda: crowd.began >= 2)
        crowd.stop()

        assert crowd.under_way(sent_before_ns=time.monotonic_ns()) == crowd.began
        assert crowd.under_way(sent_before_ns=0) == 0
        worker.state.stall = False
        await running

    assert crowd.under_way(sent_before_ns=time.monotonic_ns()) == 0


async def test_the_first_good_answer_is_one_to_a_request_that_was_sent_later() -> None:
    async with running_crowd() as (_, crowd, running):
        await eventually(lambda: len(crowd.outcomes) >= 5)
        crowd.stop()
        await running

    ends = [outcome.answer.ended_ns for outcome in crowd.outcomes]
    sent = [outcome.answer.recording.sent_ns for outcome in crowd.outcomes]
    assert crowd.first_good_ns(sent_after_ns=0) == min(ends)
    assert crowd.first_good_ns(sent_after_ns=max(sent)) == ends[sent.index(max(sent))]
    assert crowd.first_good_ns(sent_after_ns=max(ends)) is None
