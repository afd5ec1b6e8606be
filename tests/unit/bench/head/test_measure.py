from collections.abc import Sequence

import pytest

from bench.engine.records import Ask, Session
from bench.head.measure import HeadBench, deal_rounds, measure
from bench.head.plan import FULL, QUICK, HeadPlan
from engine.config import EngineSettings
from engine.models import ResolvedModel
from loadtest.conversations import DataError


def sessions(count: int) -> Sequence[Session]:
    return [[Ask([{"role": "user", "content": str(number)}], 10)] for number in range(count)]


def texts(rounds: Sequence[Sequence[Session]]) -> list[str]:
    return [ask.messages[0]["content"] for one in rounds for session in one for ask in session]


@pytest.mark.parametrize("plan", [FULL, QUICK], ids=["full", "quick"])
def test_rounds_are_of_one_size_and_no_prompt_is_in_two(plan: HeadPlan) -> None:
    rounds = deal_rounds(sessions(100), plan)

    assert len(rounds) == plan.rounds >= 3
    assert {len(one) for one in rounds} == {plan.prompts_a_round}
    assert len(texts(rounds)) == len(set(texts(rounds)))


@pytest.mark.parametrize(("count", "sizes"), [(11, [2] * 5), (3, [1] * 3), (0, [])])
def test_few_prompts_give_smaller_or_fewer_rounds(count: int, sizes: list[int]) -> None:
    assert [len(one) for one in deal_rounds(sessions(count), FULL)] == sizes


async def test_without_chat_prompts_no_worker_is_started() -> None:
    model = ResolvedModel("/nowhere", "m", is_local=True)
    bench = HeadBench(QUICK, [], EngineSettings(), model, {"code": sessions(1)}, ends_at=0.0)

    with pytest.raises(DataError, match="no chat prompts"):
        await measure(bench)
