from collections import Counter

import pytest

from loadtest.load.made_up import MadeUpPrompts
from loadtest.load.plan import Arrival, fingerprint_of, make_plan
from loadtest.load.scenario import load_scenario, scenario_names


def plan_of(name: str, *, seed: int = 3) -> list[Arrival]:
    return make_plan(load_scenario(name), MadeUpPrompts(), seed=seed)


@pytest.mark.parametrize("name", scenario_names())
def test_a_plan_repeats_with_its_seed_and_only_with_it(name: str) -> None:
    plan = plan_of(name)

    assert plan == plan_of(name)
    assert fingerprint_of(plan) == fingerprint_of(plan_of(name))
    assert fingerprint_of(plan) != fingerprint_of(plan_of(name, seed=4))


def test_the_mix_has_the_weights_that_it_was_given() -> None:
    scenario = load_scenario("abort-storm").with_arrivals(requests_per_second=50.0, seconds=60.0)

    came = Counter(a.traffic.name for a in make_plan(scenario, MadeUpPrompts(), seed=0))

    assert came["leaves"] / came["stays"] == pytest.approx(8, rel=0.25)


def test_what_is_drawn_lies_in_its_range() -> None:
    for arrival in plan_of("mixed"):
        traffic = arrival.traffic
        for turn in arrival.turns:
            assert traffic.output_tokens.low <= turn.output_tokens <= traffic.output_tokens.high
            assert (turn.abort_seconds is None) == (traffic.abort_after_seconds is None)


def test_only_further_turns_wait_for_a_thinking_client() -> None:
    for arrival in plan_of("agent-sessions"):
        first, *others = arrival.turns
        think = arrival.traffic.think_seconds

        assert first.wait_seconds == 0
        assert all(think.low <= turn.wait_seconds <= think.high for turn in others)
        assert len(arrival.turns) == len(arrival.conversation.turns)
