import asyncio

from gateway.upstream.silence import SilenceWatch
from tests.unit.gateway.virtual_time import in_virtual_time, now


class Watched:
    """A watch of 10 s, and when it gave up."""

    def __init__(self) -> None:
        self.given_up: list[float] = []
        self.watch = SilenceWatch(
            asyncio.get_running_loop(), 10.0, lambda: self.given_up.append(now())
        )

    async def wait(self, seconds: float) -> None:
        """Wait for the worker so long."""
        self.watch.waiting_since = now()
        await asyncio.sleep(seconds)
        self.watch.waiting_since = None


@in_virtual_time
async def test_one_wait_that_is_too_long_is_noticed_in_time_and_once() -> None:
    watched, began = Watched(), now()
    await watched.wait(4)
    await watched.wait(50)
    await watched.wait(50)

    assert [at - began for at in watched.given_up] == [14]


@in_virtual_time
async def test_many_short_waits_are_no_silence() -> None:
    watched = Watched()
    for _ in range(20):
        await watched.wait(9)

    assert watched.given_up == []


@in_virtual_time
async def test_time_in_which_nobody_waits_does_not_count() -> None:
    watched = Watched()
    await watched.wait(5)
    await asyncio.sleep(100)
    began = now()
    await watched.wait(50)

    assert [at - began for at in watched.given_up] == [10]


@in_virtual_time
async def test_after_the_end_nobody_looks() -> None:
    watched = Watched()
    watched.watch.stop()
    await watched.wait(50)

    assert watched.given_up == []
