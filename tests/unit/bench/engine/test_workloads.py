from collections.abc import Sequence

import pytest

from bench.engine.plan import FULL, QUICK, Plan
from bench.engine.records import KINDS, Ask, Pools, Session
from bench.engine.workloads import Slices, deal

LONG = 60


def pools(size: int) -> Pools:
    return {
        kind: [[ask(f"{kind} {n} {turn}") for turn in range(9)] for n in range(size)]
        for kind in KINDS
    }


def ask(text: str) -> Ask:
    return Ask([{"role": "user", "content": text}], LONG, prediction="old text")


def sent(slices: Slices) -> list[str]:
    return [
        ask.messages[-1]["content"]
        for rounds in slices.values()
        for sessions in rounds
        for session in sessions
        for ask in session
    ]


def sizes(rounds: Sequence[Sequence[Session]]) -> list[int]:
    return [len(sessions) for sessions in rounds]


@pytest.mark.parametrize("plan", [FULL, QUICK], ids=["full", "quick"])
@pytest.mark.parametrize("size", [4, 30, 500])
@pytest.mark.parametrize("batch", [1, 4, 16])
def test_no_prompt_is_dealt_twice(plan: Plan, size: int, batch: int) -> None:
    prompts = sent(deal(pools(size), plan, batch))

    assert len(prompts) == len(set(prompts))


@pytest.mark.parametrize("batch", [1, 4, 16])
def test_every_round_is_of_one_size_and_keeps_the_clients_busy(batch: int) -> None:
    slices = deal(pools(500), FULL, batch)

    assert len(slices) == 7
    for rounds in slices.values():
        assert len(rounds) == FULL.rounds
        assert len(set(sizes(rounds))) == 1
        assert min(sizes(rounds)) >= batch


def test_few_prompts_are_shared_in_proportion() -> None:
    # Of 57 edits 19 are a round's, where 16, 16 and 4 are wanted.
    slices = deal(pools(57), FULL, 16)

    assert sizes(slices["edit"]) == sizes(slices["edit_prediction"]) == [8, 8, 8]


def test_a_workload_without_prompts_is_left_out() -> None:
    slices = deal({"code": pools(12)["code"]}, FULL, 1)

    assert set(slices) == {"code", "mixed"}


def test_only_one_workload_sends_predictions_and_one_draws() -> None:
    slices = deal(pools(500), FULL, 1)
    first = {workload: rounds[0][0][0] for workload, rounds in slices.items()}

    assert {w for w, ask in first.items() if ask.prediction} == {"edit_prediction"}
    assert {w for w, ask in first.items() if ask.temperature} == {"creative"}
    assert {w for w, ask in first.items() if ask.ignore_eos} == {"creative"}


def test_sessions_in_the_mix_are_shorter() -> None:
    slices = deal(pools(500), FULL, 1)

    assert [len(session) for session in slices["mixed"][0]] == [1, 1, 1, 1]
    assert {len(session) for session in slices["agent"][0]} == {FULL.turns}


def test_more_clients_get_shorter_answers_and_sessions() -> None:
    slices = {batch: deal(pools(500), QUICK, batch) for batch in (1, 4, 16)}
    first = {batch: found["agent"][0][0] for batch, found in slices.items()}

    assert {batch: len(session) for batch, session in first.items()} == {1: 2, 4: 1, 16: 1}
    assert {batch: session[0].most_tokens for batch, session in first.items()} == {
        1: LONG,
        4: LONG // 2,
        16: QUICK.least_tokens,
    }
