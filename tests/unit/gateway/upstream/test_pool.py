import asyncio

import pytest

from gateway.errors import (
    InvalidRequestError,
    ModelNotFoundError,
    NoHealthyWorkerError,
    UpstreamError,
    WorkerBusyError,
    WorkerLostError,
    WorkerTimeoutError,
)
from gateway.types import WorkerId
from gateway.upstream import Pool, Worker
from tests.unit.gateway.json_log import json_log
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
    async with pool.lease(model, wait_seconds=wait_seconds, avoid=avoid or set()) as lease:
        if error is not None:
            raise error
        return lease.worker.id


async def fail(pool: Pool, error: BaseException, *, on: Worker | None = None) -> None:
    """A request fails with `error`, on one of the workers if it is given."""
    avoid = {worker.id for worker in pool.workers if on not in (None, worker)}
    with pytest.raises(type(error)):
        await use(pool, error, avoid=avoid)


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


async def test_the_load_of_a_worker_is_reported_while_it_is_known() -> None:
    seen, worker = Observations(), serving("a")
    async with pool_of([worker], seen) as pool:
        await use(pool)
        async with pool.lease("m", wait_seconds=0, avoid=set()):
            pool.leave(worker)

    assert seen.loads == [("a", 1), ("a", 0), ("a", 1)]
    assert worker.in_flight == 0


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


FAILURES = {
    "lost": WorkerLostError("gone", sent=True),
    "timeout": WorkerTimeoutError("slow"),
    "bad_answer": UpstreamError("500"),
}


@pytest.mark.parametrize(("reason", "error"), FAILURES.items(), ids=FAILURES)
@in_virtual_time
async def test_consecutive_failures_eject_a_worker_until_a_trial_succeeds(
    reason: str, error: UpstreamError
) -> None:
    seen, worker, other = Observations(), serving("a"), serving("b")
    async with pool_of([worker, other], seen) as pool:
        with json_log() as log:
            for _ in range(2):
                await fail(pool, error, on=worker)

            assert {await use(pool) for _ in range(20)} == {"b"}
            assert not pool.has_other(None, {other.id})
            assert worker.up  # a broken connection alone proves nothing

            await asyncio.sleep(1)
            assert pool.has_other(None, {other.id})
            assert await use(pool, avoid={other.id}) == "a"

        assert seen.failures == [("a", reason)] * 2
        assert (seen.ejections, seen.readmitted) == ([("a", reason)], ["a"])
        assert {await use(pool) for _ in range(20)} == {"a", "b"}
        assert (
            log.of("worker_ejected")[0].items()
            >= {"worker": "a", "reason": reason, "seconds": 1, "ejections": 1}.items()
        )
        assert [line["worker"] for line in log.of("worker_readmitted")] == ["a"]


@in_virtual_time
async def test_a_worker_that_cannot_be_reached_is_down_at_once() -> None:
    worker = serving("a")
    async with pool_of([worker, serving("b")]) as pool:
        await fail(pool, WorkerLostError("refused", sent=False), on=worker)

        assert not worker.up


@pytest.mark.parametrize(
    ("workers", "ejected"), [(1, 0), (2, 1), (3, 1), (4, 2), (7, 3)], ids=lambda count: str(count)
)
@in_virtual_time
async def test_at_most_half_of_the_workers_are_ejected(workers: int, ejected: int) -> None:
    every = [serving(f"w{number}") for number in range(workers)]
    async with pool_of([*every, make_worker("down")]) as pool:
        for _ in range(3):
            for worker in every:
                if worker.outlier.accepts(now()):
                    await fail(pool, UpstreamError("500"), on=worker)

        assert sum(worker.outlier.is_ejected for worker in every) == ejected
        assert pool.is_ready


@in_virtual_time
async def test_at_most_half_of_the_workers_of_each_model_are_ejected() -> None:
    ours = [serving("a", "m"), serving("b", "m", "adapter")]
    others = [serving("c", "other"), serving("d", "other"), serving("e", "other")]
    async with pool_of([*ours, *others]) as pool:
        for worker in reversed(ours):  # only b has the adapter
            for _ in range(3):
                await fail(pool, UpstreamError("500"), on=worker)

        assert [worker.id for worker in ours if worker.outlier.is_ejected] == ["a"]


@pytest.mark.parametrize(
    "error",
    [WorkerBusyError("busy"), asyncio.CancelledError(), InvalidRequestError("no"), ValueError()],
    ids=lambda error: type(error).__name__,
)
@in_virtual_time
async def test_other_endings_eject_nobody(error: BaseException) -> None:
    worker = serving("a")
    async with pool_of([worker, serving("b")]) as pool:
        for _ in range(10):
            await fail(pool, error, on=worker)

        assert worker.can_take(None, now())
        assert worker.in_flight == 0


@pytest.mark.parametrize(
    ("error", "failures"),
    [(WorkerBusyError("busy"), 2), (asyncio.CancelledError(), 2), (InvalidRequestError("no"), 1)],
    ids=["busy", "cancelled", "refused"],
)
@in_virtual_time
async def test_only_an_answer_ends_the_count_of_failures(
    error: BaseException, failures: int
) -> None:
    worker = serving("a")
    async with pool_of([worker]) as pool:
        await fail(pool, UpstreamError("500"))
        await fail(pool, error)
        await fail(pool, UpstreamError("500"))

        assert worker.outlier.failures == failures


@in_virtual_time
async def test_an_older_requests_end_leaves_the_trial_alone() -> None:
    worker, other = serving("a"), serving("b")
    async with pool_of([worker, other]) as pool:

        async def hold(seconds: float, error: BaseException | None = None) -> None:
            async with pool.lease(None, wait_seconds=0, avoid={other.id}) as leased:
                assert leased.worker is worker
                await asyncio.sleep(seconds)
                if error is not None:
                    raise error

        old = [asyncio.create_task(hold(2)), asyncio.create_task(hold(2, ValueError()))]
        await asyncio.sleep(0)
        for _ in range(2):
            await fail(pool, UpstreamError("500"), on=worker)
        await asyncio.sleep(1.5)
        trial = asyncio.create_task(hold(0.9))
        await asyncio.wait(old)

        assert worker.outlier.is_ejected
        assert not worker.can_take(None, now())
        await trial
        assert not worker.outlier.is_ejected
        assert isinstance(old[1].exception(), ValueError)


@in_virtual_time
async def test_a_waiting_request_gets_a_trial() -> None:
    worker, other = serving("a"), serving("b")
    async with pool_of([worker, other]) as pool:
        for _ in range(2):
            await fail(pool, UpstreamError("500"), on=worker)
        pool.mark_down(other)
        assert not pool.is_ready

        assert await use(pool, wait_seconds=60) == "a"
        assert now() == pytest.approx(1, abs=0.11)


@in_virtual_time
async def test_a_worker_that_came_back_is_readmitted_and_gets_little_load() -> None:
    seen, worker, other = Observations(), serving("a"), serving("b")
    async with pool_of([worker, other], seen) as pool:
        for _ in range(2):
            await fail(pool, WorkerTimeoutError("slow"), on=worker)
        pool.mark_down(worker)
        pool.mark_up(worker)
        other.in_flight = 5

        assert worker.can_take(None, now())
        assert seen.readmitted == ["a"]
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
            pool.require_model("m" * 9_000)
        assert len(caught.value.message) < 300
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


@in_virtual_time
async def test_requests_that_end_after_their_worker_left_are_not_reported() -> None:
    seen, leaving, staying = Observations(), serving("leaving"), serving("staying")
    async with pool_of([leaving, staying], seen) as pool:

        async def end_badly() -> None:
            async with pool.lease(None, wait_seconds=0, avoid={staying.id}):
                await asyncio.sleep(1)
                raise UpstreamError("500")

        running = [asyncio.create_task(end_badly()) for _ in range(3)]
        await asyncio.sleep(0)
        pool.leave(leaving)
        await asyncio.wait(running)

        assert all(isinstance(task.exception(), UpstreamError) for task in running)
        assert (leaving.in_flight, seen.failures, seen.ejections) == (0, [], [])


@in_virtual_time
async def test_a_request_is_handed_over_once_when_its_worker_has_left() -> None:
    first, second = serving("a"), serving("b")
    async with pool_of([first, second], Observations()) as pool:
        calls: list[bool] = []

        def hand_over() -> bool:
            calls.append(second.up)
            return second.up

        pool.mark_down(second)
        async with pool.lease(None, wait_seconds=0, avoid=()) as lease:
            pool.on_leave(lease, hand_over)
            assert calls == []
            pool.leave(first)
            assert calls == [False]
            pool.mark_up(second)
            pool.join(serving("c"))

            assert calls == [False, True]
        pool.leave(second)
        assert len(calls) == 2


@in_virtual_time
async def test_a_request_is_handed_over_if_its_worker_left_while_it_was_sent() -> None:
    async with pool_of([worker := serving("a")], Observations()) as pool:
        calls: list[str] = []

        def hand_over() -> bool:
            calls.append("now")
            return True

        async with pool.lease(None, wait_seconds=0, avoid=()) as lease:
            pool.leave(worker)
            pool.on_leave(lease, hand_over)

        assert calls == ["now"]
