import asyncio

import pytest

from gateway.errors import UpstreamError
from gateway.upstream import Coalesced
from tests.unit.gateway.virtual_time import in_virtual_time


class Calls:
    """Counts calls that take a second each."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.begun += 1
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return self.begun


@in_virtual_time
async def test_callers_at_the_same_time_share_one_call() -> None:
    calls, shared = Calls(), Coalesced[int]()

    assert await asyncio.gather(*(shared.get(calls) for _ in range(200))) == [1] * 200


@in_virtual_time
async def test_a_result_is_used_for_a_second() -> None:
    calls, shared = Calls(), Coalesced[int]()
    results = [await shared.get(calls)]
    for pause in (0.5, 0.4, 0.2):
        await asyncio.sleep(pause)
        results.append(await shared.get(calls))

    assert results == [1, 1, 1, 2]


@in_virtual_time
async def test_an_error_is_shared_for_no_longer_than_a_result() -> None:
    calls, shared = Calls(), Coalesced[int]()
    calls.error = UpstreamError("no")
    failed = await asyncio.gather(*(shared.get(calls) for _ in range(3)), return_exceptions=True)
    with pytest.raises(UpstreamError):
        await shared.get(calls)
    assert (failed, calls.begun) == ([calls.error] * 3, 1)

    calls.error = None
    await asyncio.sleep(1)

    assert await shared.get(calls) == 2


@in_virtual_time
async def test_a_caller_that_is_cancelled_does_not_cancel_the_others() -> None:
    calls, shared = Calls(), Coalesced[int]()
    first, second = (asyncio.create_task(shared.get(calls)) for _ in range(2))
    await asyncio.sleep(0.5)
    first.cancel()

    assert await second == 1
    assert first.cancelled()


@in_virtual_time
async def test_the_call_is_cancelled_when_nobody_waits_for_it() -> None:
    calls, shared = Calls(), Coalesced[int]()
    callers = [asyncio.create_task(shared.get(calls)) for _ in range(2)]
    await asyncio.sleep(0.5)
    for caller in callers:
        caller.cancel()
    await asyncio.wait(callers)

    assert await shared.get(calls) == 2
    assert calls.cancelled == 1
