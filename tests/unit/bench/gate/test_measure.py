import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from bench.engine.records import Ask
from bench.engine.worker import WorkerError
from bench.gate.measure import run_busy
from bench.gate.plan import FULL
from bench.gate.settings import FIXED, settings_of
from bench.rounds import rotated


def test_each_fixed_setting_is_asked_first_in_some_round() -> None:
    settings = [setting for setting in settings_of(FULL) if setting.worker == FIXED]

    firsts = {rotated(settings, number)[0].name for number in range(len(settings))}

    assert len(firsts) == len(settings)


def asks(*turns: int) -> list[Ask]:
    """Requests that each take so many turns of the loop."""
    return [Ask([{"role": "user", "content": str(count)}], 10) for count in turns]


class Slow:
    """Answers after as many turns of the loop as the request says; fails at none."""

    def __init__(self) -> None:
        self.now = 0
        self.fewest = 99
        self.broken_off = 0

    async def answer(self, ask: Ask) -> Mapping[str, Any]:
        turns = int(str(ask.messages[0]["content"]))
        if not turns:
            raise WorkerError("failed")
        self.now += 1
        try:
            for _ in range(turns):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.broken_off += 1
            raise
        finally:
            self.now -= 1
        return {"turns": turns}

    async def metrics(self) -> str:
        self.fewest = self.now
        return "some"


async def test_what_one_client_alone_sends_is_answered_to_the_end() -> None:
    worker = Slow()

    busy = await run_busy(worker, asks(3, 1, 2), 1, worker.metrics)

    assert [answer["turns"] for answer in busy.answers] == [3, 1, 2]
    assert busy.metrics == "some"
    assert worker.broken_off == 0


async def test_it_ends_when_a_client_has_none_left_and_the_others_are_broken_off() -> None:
    worker = Slow()

    # Two clients: the second takes the third request, and the fourth, and finds no fifth.
    busy = await run_busy(worker, asks(50, 2, 2, 2), 2, worker.metrics)

    assert [answer["turns"] for answer in busy.answers] == [2, 2, 2]
    assert worker.fewest == 1  # the first still ran when the metrics were read
    assert worker.broken_off == 1
    assert worker.now == 0


async def test_a_failed_request_ends_it() -> None:
    worker = Slow()

    with pytest.raises(WorkerError, match="failed"):
        await run_busy(worker, asks(50, 0, 2), 2, worker.metrics)

    assert worker.broken_off == 1
