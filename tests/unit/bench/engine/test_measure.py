import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.engine.measure import Bench, measure, run_clients
from bench.engine.plan import QUICK
from bench.engine.records import Ask, Session
from engine.config import EngineSettings
from engine.models import ResolvedModel


class Echo:
    """Answers with the request's text, after everybody else has had a turn."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    async def answer(self, ask: Ask) -> Mapping[str, Any]:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        return {"text": ask.messages[-1]["content"]}


def session(name: str, turns: int) -> Session:
    return [Ask([{"role": "user", "content": f"{name}{n}"}], 10) for n in range(turns)]


async def test_one_client_sends_one_request_after_another() -> None:
    worker = Echo()

    answers = await run_clients(worker, [session("a", 2), session("b", 2)], 1)

    assert [answer["text"] for answer in answers] == ["a0", "a1", "b0", "b1"]
    assert worker.most == 1


async def test_without_time_to_start_workers_all_is_left_out() -> None:
    model = ResolvedModel("/nowhere", "m", is_local=True)
    bench = Bench(QUICK, [], EngineSettings(), model, Path(), {}, ends_at=0.0)

    figures = await measure(bench, 4)

    assert (figures.counts, len(figures.left_out)) == ({}, 7)


async def test_sessions_run_side_by_side_and_each_in_its_order() -> None:
    worker = Echo()

    answers = await run_clients(worker, [session(name, 3) for name in "abc"], 2)

    texts = [answer["text"] for answer in answers]
    assert worker.most == 2
    assert len(texts) == 9
    for name in "abc":
        own = [text for text in texts if text.startswith(name)]
        assert own == sorted(own)
