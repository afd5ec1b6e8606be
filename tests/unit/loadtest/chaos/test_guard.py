import asyncio

import pytest

from loadtest.chaos import guard
from loadtest.chaos.guard import LimitError, bounded


async def test_a_block_within_its_bounds_runs_to_its_end() -> None:
    async with bounded(seconds=5, most_bytes=2**50):
        await asyncio.sleep(0)


async def test_a_block_that_lasts_too_long_is_ended() -> None:
    with pytest.raises(LimitError, match="not done in 0 s"):
        async with bounded(seconds=0.05, most_bytes=2**50):
            await asyncio.sleep(10)


async def test_a_block_that_takes_too_much_memory_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard, "_LOOK_SECONDS", 0.01)

    with pytest.raises(LimitError, match="more than is allowed"):
        async with bounded(seconds=5, most_bytes=1):
            await asyncio.sleep(10)


async def test_a_timeout_of_the_block_itself_is_passed_on() -> None:
    with pytest.raises(TimeoutError):
        async with bounded(seconds=5, most_bytes=2**50):
            raise TimeoutError
