import pytest

from bench.engine.records import KINDS, Ask, Pools
from bench.gate.plan import FULL
from bench.gate.prompts import CREATIVE, MIXED, deal
from loadtest.conversations import DataError


def pools(count: int, *, characters: int = 10) -> Pools:
    return {
        kind: [
            [Ask([{"role": "user", "content": f"{kind} {n}".ljust(characters)}], 500)] * 2
            for n in range(count)
        ]
        for kind in KINDS
    }


def said(asks: list[Ask]) -> list[str]:
    return [str(ask.messages[0]["content"]).strip() for ask in asks]


def test_mixed_has_as_many_of_each_kind_and_no_prompt_twice() -> None:
    rounds = deal(pools(400), FULL, 8)  # and two for each client

    prompts = [prompt for asks in rounds[MIXED] for prompt in said(list(asks))]
    assert len(rounds[MIXED]) == FULL.rounds
    assert len(set(prompts)) == len(prompts) == 16 * FULL.rounds
    assert sum(prompt.startswith("agent") for prompt in prompts) == 4 * FULL.rounds


def test_creative_has_a_prompt_for_each_client_and_goes_on_to_its_length() -> None:
    rounds = deal(pools(400), FULL, 32)[CREATIVE]

    assert [len(asks) for asks in rounds] == [32] * FULL.rounds
    assert {(ask.temperature, ask.ignore_eos) for asks in rounds for ask in asks} == {(1.0, True)}


@pytest.mark.parametrize(("clients", "most"), [(1, FULL.answer_tokens), (32, FULL.least_tokens)])
def test_answers_are_shorter_with_more_clients(clients: int, most: int) -> None:
    rounds = deal(pools(400), FULL, clients)

    assert {ask.most_tokens for asks in rounds[MIXED] for ask in asks} == {most}


def test_too_few_short_prompts_are_an_error() -> None:
    with pytest.raises(DataError, match="too few short prompts of the kind chat"):
        deal(pools(400, characters=5_000), FULL, 1)


def test_where_prompts_are_few_each_client_has_fewer_of_them() -> None:
    few = 9 * FULL.rounds  # of each kind; four kinds make 36 a round

    rounds = deal({**pools(400), "agent": pools(few)["agent"]}, FULL, 32)

    assert [len(asks) for asks in rounds[MIXED]] == [36] * FULL.rounds
