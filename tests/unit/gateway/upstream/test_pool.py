import asyncio
from collections import Counter

import pytest

from gateway.errors import (
    InvalidRequestError,
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
async def test_every_worker_is_reported_down_at_first() -> None:
    seen = Observations()
    async with pool_of([make_worker("a"), make_worker("b")], seen) as pool:
        assert seen.ups == [("a", False), ("b", False)]
        assert not pool.is_ready
        assert pool.models == {}


@in_virtual_time
async def test_up_and_down_are_told_once_each() -> None:
    seen, worker = Observations(), make_worker("a")
    async with pool_of([worker], seen) as pool:
        for _ in range(2):
            pool.mark_up(worker)
        assert pool.is_ready
        for _ in range(2):
            pool.mark_down(worker)

        assert not pool.is_ready
        assert seen.ups == [("a", False), ("a", True), ("a", False)]


@in_virtual_time
async def test_requests_are_spread() -> None:
    async with pool_of([serving("a"), serving("b"), serving("c")]) as pool:
        counts = Counter([await use(pool) for _ in range(300)])

        assert set(counts) == {"a", "b", "c"}


@in_virtual_time
async def test_a_request_goes_where_its_model_is() -> None:
    async with pool_of([serving("a", "m1"), serving("b", "m2")]) as pool:
        assert {await use(pool, model="m2") for _ in range(20)} == {"b"}


@in_virtual_time
async def test_workers_that_failed_a_request_are_avoided_unless_nobody_else_is_there() -> None:
    first, second = serving("a"), serving("b")
    async with pool_of([first, second]) as pool:
        avoided = {await use(pool, avoid={first.id}) for _ in range(20)}
        pool.mark_down(second)

        assert avoided == {"b"}
        assert await use(pool, avoid={first.id}) == "a"


@in_virtual_time
async def test_load_is_counted_while_a_request_runs() -> None:
    worker = serving("a")
    async with pool_of([worker]) as pool:
        async with pool.lease(None, wait_seconds=0, avoid=set()):
            assert worker.in_flight == 1
        await fail(pool, WorkerTimeoutError("slow"))

        assert worker.in_flight == 0


@in_virtual_time
async def test_a_request_waits_for_a_worker_to_come_up() -> None:
    worker = make_worker("a")
    async with pool_of([worker]) as pool:
        asyncio.get_running_loop().call_later(7.03, pool.mark_up, worker)

        assert await use(pool, wait_seconds=60) == "a"
        assert now() == 7.03


@in_virtual_time
async def test_a_request_waits_so_long_and_no_longer() -> None:
    async with pool_of([make_worker("a")]) as pool:
        with pytest.raises(NoHealthyWorkerError) as caught:
            await use(pool, wait_seconds=5)

        assert now() == pytest.approx(5)
        assert caught.value.status == 503
        assert caught.value.headers == {"retry-after": "5"}


@in_virtual_time
async def test_a_request_waits_for_a_breaker_too() -> None:
    async with pool_of([serving("a")]) as pool:
        for _ in range(2):
            await fail(pool, WorkerTimeoutError("slow"))
        assert not pool.is_ready

        assert await use(pool, wait_seconds=60) == "a"
        assert now() == pytest.approx(1, abs=0.11)


@in_virtual_time
async def test_failures_open_the_breaker_and_are_counted() -> None:
    seen, worker = Observations(), serving("a")
    async with pool_of([worker], seen) as pool:
        await fail(pool, WorkerLostError("gone", sent=True))
        await fail(pool, WorkerTimeoutError("slow"))

        assert seen.failures == [("a", "lost"), ("a", "timeout")]
        assert worker.breaker.state(now()) is BreakerState.OPEN
        assert worker.up  # a broken connection alone proves nothing


@in_virtual_time
async def test_a_worker_that_cannot_be_reached_is_down_at_once() -> None:
    worker = serving("a")
    async with pool_of([worker]) as pool:
        await fail(pool, WorkerLostError("refused", sent=False))

        assert not worker.up


@pytest.mark.parametrize(
    "error",
    [InvalidRequestError("no"), UpstreamError("bad"), asyncio.CancelledError(), ValueError()],
    ids=lambda error: type(error).__name__,
)
@in_virtual_time
async def test_what_tells_nothing_about_the_worker_is_no_failure(error: BaseException) -> None:
    seen, worker = Observations(), serving("a")
    async with pool_of([worker], seen) as pool:
        for _ in range(10):
            await fail(pool, error)

        assert seen.failures == []
        assert worker.can_take(None, now())
        assert worker.in_flight == 0


@in_virtual_time
async def test_of_a_worker_on_trial_one_request_decides() -> None:
    worker = serving("a")
    async with pool_of([worker]) as pool:
        for _ in range(2):
            await fail(pool, WorkerTimeoutError("slow"))
        await asyncio.sleep(1)
        async with pool.lease(None, wait_seconds=0, avoid=set()):
            with pytest.raises(NoHealthyWorkerError):
                await use(pool)

        assert await use(pool) == "a"


@in_virtual_time
async def test_a_trial_whose_client_left_leaves_the_trial_to_another() -> None:
    worker = serving("a")
    async with pool_of([worker]) as pool:
        for _ in range(2):
            await fail(pool, WorkerTimeoutError("slow"))
        await asyncio.sleep(1)
        await fail(pool, asyncio.CancelledError())

        assert worker.breaker.state(now()) is BreakerState.TRIAL
        assert await use(pool) == "a"


@in_virtual_time
async def test_a_recovered_worker_starts_with_a_closed_breaker_and_little_load() -> None:
    worker, other = serving("a"), serving("b")
    async with pool_of([worker, other]) as pool:
        await fail(pool, WorkerTimeoutError("slow"))
        pool.mark_down(worker)
        pool.mark_up(worker)
        other.in_flight = 5

        assert worker.breaker.state(now()) is BreakerState.CLOSED
        assert {await use(pool) for _ in range(20)} == {"b"}


@in_virtual_time
async def test_models_of_all_workers_are_known_also_of_those_that_are_down() -> None:
    worker = serving("a", "m1")
    async with pool_of([worker, serving("b", "m2")]) as pool:
        pool.mark_down(worker)

        assert set(pool.models) == {"m1", "m2"}
        assert pool.require_model("m1") == "m1"


@in_virtual_time
async def test_an_unknown_model_is_refused_once_all_lists_are_known() -> None:
    unknown = make_worker("b")
    async with pool_of([serving("a", "m1"), unknown]) as pool:
        assert pool.require_model("m9") == "m9"

        unknown.models = {"m2": {}}

        with pytest.raises(ModelNotFoundError) as caught:
            pool.require_model("m9")
        assert (caught.value.status, caught.value.param) == (404, "model")


@pytest.mark.parametrize(
    ("models", "chosen"), [(["m"], "m"), (["m", "n"], None)], ids=["only-one", "several"]
)
@in_virtual_time
async def test_without_a_name_the_only_model_is_meant(
    models: list[str], chosen: str | None
) -> None:
    async with pool_of([serving("a", *models)]) as pool:
        assert pool.require_model(None) == chosen


@in_virtual_time
async def test_while_no_worker_is_known_any_model_may_come() -> None:
    async with pool_of([]) as pool:
        assert pool.require_model("m") == "m"
        with pytest.raises(NoHealthyWorkerError):
            await use(pool, model="m")


@in_virtual_time
async def test_a_request_that_waits_is_given_to_a_worker_that_joins() -> None:
    worker = make_worker("new")
    async with pool_of([]) as pool:
        waiting = asyncio.create_task(use(pool, model="m", wait_seconds=60))
        await asyncio.sleep(10)
        pool.join(worker)
        worker.models = {"m": {"id": "m"}}
        pool.mark_up(worker)

        assert await waiting == "new"


@in_virtual_time
async def test_who_left_gets_nothing_more_whatever_a_late_probe_says() -> None:
    seen, leaving = Observations(), serving("leaving")
    async with pool_of([leaving, serving("staying")], seen) as pool:
        pool.leave(leaving)
        pool.mark_up(leaving)

        assert {await use(pool) for _ in range(20)} == {"staying"}
        assert seen.left == ["leaving"]
        assert not leaving.up


@in_virtual_time
async def test_how_many_workers_there_are_is_told_from_the_start() -> None:
    seen, found = Observations(), serving("found")
    async with pool_of([], seen) as pool:
        assert seen.known == [0]

        pool.join(found)
        pool.leave(found)

        assert seen.known == [0, 1, 0]
