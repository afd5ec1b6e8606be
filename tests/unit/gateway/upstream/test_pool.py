import asyncio

import pytest

from gateway.errors import (
    ModelNotFoundError,
    NoHealthyWorkerError,
    UpstreamError,
    WorkerLostError,
    WorkerTimeoutError,
)
from gateway.types import WorkerId
from gateway.upstream import BreakerState, Pool, Worker
from tests.unit.gateway.upstream.workers import Observations, make_worker, pool_of
from tests.unit.gateway.virtual_time import in_virtual_time, now


def serving(name: str, *models: str) -> Worker:
    worker = make_worker(name)
    worker.up, worker.models = True, {model: {"id": model} for model in models or ("m",)}
    return worker


async def use(
    pool: Pool,
    error: BaseException | None = None,
    *,
    model: str | None = None,
    wait_seconds: float = 0,
    avoid: set[WorkerId] | None = None,
) -> str:
    """Lease a worker for a request that ends with `error`; its name."""
    async with pool.lease(model, wait_seconds=wait_seconds, avoid=avoid or set()) as worker:
        if error is not None:
            raise error
        return worker.id


async def fail(pool: Pool, error: BaseException) -> None:
    with pytest.raises(type(error)):
        await use(pool, error)


@in_virtual_time
async def test_up_and_down_are_reported_once_each() -> None:
    seen, worker = Observations(), make_worker("a")
    async with pool_of([worker], seen) as pool:
        assert not pool.is_ready
        for _ in range(2):
            pool.mark_up(worker)
        assert pool.is_ready
        for _ in range(2):
            pool.mark_down(worker)

        assert not pool.is_ready
        assert seen.ups == [("a", False), ("a", True), ("a", False)]


@in_virtual_time
async def test_workers_that_failed_a_request_are_avoided_if_possible() -> None:
    first, second = serving("a"), serving("b")
    async with pool_of([first, second]) as pool:
        avoided = {await use(pool, avoid={first.id}) for _ in range(20)}
        pool.mark_down(second)

        assert avoided == {"b"}
        assert await use(pool, avoid={first.id}) == "a"


@in_virtual_time
async def test_the_wait_for_a_worker_is_limited() -> None:
    async with pool_of([make_worker("a")]) as pool:
        with pytest.raises(NoHealthyWorkerError) as caught:
            await use(pool, wait_seconds=5)

        assert now() == pytest.approx(5)
        assert caught.value.status == 503
        assert caught.value.headers == {"retry-after": "5"}


@in_virtual_time
async def test_failures_open_the_breaker_and_are_counted() -> None:
    seen, worker = Observations(), serving("a")
    async with pool_of([worker], seen) as pool:
        await fail(pool, WorkerLostError("gone", sent=True))
        await fail(pool, WorkerTimeoutError("slow"))

        assert seen.failures == [("a", "lost"), ("a", "timeout")]
        assert worker.breaker.state(now()) is BreakerState.OPEN
        assert worker.up  # a broken connection alone proves nothing
        assert worker.in_flight == 0

        assert await use(pool, wait_seconds=60) == "a"  # after the breaker's pause
        assert now() == pytest.approx(1, abs=0.11)
        await fail(pool, WorkerLostError("refused", sent=False))
        assert not worker.up


@pytest.mark.parametrize(
    "error",
    [UpstreamError("bad"), asyncio.CancelledError(), ValueError()],
    ids=lambda error: type(error).__name__,
)
@in_virtual_time
async def test_other_errors_are_no_failure_of_the_worker(error: BaseException) -> None:
    seen, worker = Observations(), serving("a")
    async with pool_of([worker], seen) as pool:
        for _ in range(10):
            await fail(pool, error)

        assert seen.failures == []
        assert worker.can_take(None, now())
        assert worker.in_flight == 0


@in_virtual_time
async def test_a_trial_decides_unless_its_client_leaves() -> None:
    worker = serving("a")
    async with pool_of([worker]) as pool:
        for _ in range(2):
            await fail(pool, WorkerTimeoutError("slow"))
        await asyncio.sleep(1)
        await fail(pool, asyncio.CancelledError())

        assert worker.breaker.state(now()) is BreakerState.TRIAL
        async with pool.lease(None, wait_seconds=0, avoid=set()):
            with pytest.raises(NoHealthyWorkerError):
                await use(pool)
        assert await use(pool) == "a"


@in_virtual_time
async def test_a_recovered_worker_gets_a_closed_breaker_and_little_load() -> None:
    worker, other = serving("a"), serving("b")
    async with pool_of([worker, other]) as pool:
        await fail(pool, WorkerTimeoutError("slow"))
        pool.mark_down(worker)
        pool.mark_up(worker)
        other.in_flight = 5

        assert worker.breaker.state(now()) is BreakerState.CLOSED
        assert {await use(pool) for _ in range(20)} == {"b"}


@in_virtual_time
async def test_models_are_checked_once_all_lists_are_known() -> None:
    first, unknown = serving("a", "m1"), make_worker("b")
    async with pool_of([first, unknown]) as pool:
        assert pool.require_model("m9") == "m9"
        assert pool.require_model(None) == "m1"

        unknown.models = {"m2": {}}
        pool.mark_down(first)

        assert pool.require_model("m1") == "m1"
        assert pool.require_model(None) is None

        with pytest.raises(ModelNotFoundError) as caught:
            pool.require_model("m9")
        assert (caught.value.status, caught.value.param) == (404, "model")


@in_virtual_time
async def test_a_waiting_request_gets_a_worker_that_joins() -> None:
    worker = make_worker("new")
    async with pool_of([]) as pool:
        waiting = asyncio.create_task(use(pool, model="m", wait_seconds=60))
        await asyncio.sleep(10)
        pool.join(worker)
        worker.models = {"m": {"id": "m"}}
        pool.mark_up(worker)

        assert await waiting == "new"


@in_virtual_time
async def test_a_worker_that_left_gets_no_more_requests() -> None:
    seen, leaving = Observations(), serving("leaving")
    async with pool_of([leaving, serving("staying")], seen) as pool:
        pool.leave(leaving)
        pool.mark_up(leaving)

        assert {await use(pool) for _ in range(20)} == {"staying"}
        assert seen.left == ["leaving"]
        assert seen.known == [0, 1, 2, 1]
        assert not leaving.up
