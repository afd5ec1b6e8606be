import pytest

from bench.routing.real import FULL, QUICK, Round, Size, counts_of, figures
from bench.routing.routers import ROUTERS
from loadtest.load import (
    Answer,
    Ending,
    MadeUpPrompts,
    Outcome,
    Recording,
    load_scenario,
    make_plan,
)
from loadtest.load.answer import Arrived

PAGE = """# HELP vllm:prefix_cache_queries_total Tokens.
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 300.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 120.0
vllm:generation_tokens_total{engine="0",model_name="m"} 50.0
engine_spec_accepted_tokens_total{source="head"} 10.0
engine_spec_accepted_tokens_total{source="suffix"} 5.0
engine_spec_accepted_tokens_created{source="suffix"} 1e9
"""
SCENARIO = load_scenario("chat")
ARRIVAL = make_plan(SCENARIO, MadeUpPrompts(), seed=1)[0]


def outcome(first_ms: int, *, ending: Ending = Ending.DONE) -> Outcome:
    recording = Recording(due_ns=0, sent_ns=0, status=200, ended_ns=2 * 10**9)
    arrivals = [Arrived(first_ms * 10**6, 4, 1)]
    return Outcome(ARRIVAL, 0, Answer(recording, ending, arrivals=arrivals, tokens=20))


def test_counters_of_all_sources_are_added() -> None:
    assert counts_of(PAGE) == {"asked": 300, "hit": 120, "accepted": 15, "generated": 50}


def test_a_counter_that_is_missing_counts_nothing() -> None:
    assert counts_of("") == {"asked": 0, "hit": 0, "accepted": 0, "generated": 0}


def test_rounds_are_taken_together() -> None:
    one = Round([outcome(100), outcome(300)], counts_of(PAGE), seconds=4.0)
    other = Round(
        [outcome(200, ending=Ending.ERROR)],
        {"asked": 100, "hit": 0, "accepted": 5, "generated": 50},
        seconds=1.0,
    )

    found = figures([one, other], SCENARIO)

    assert found["prefix_hit"] == 0.3
    assert found["prefix_hit_rounds"] == [0.4, 0.0]
    assert found["accepted_share"] == 0.2
    assert found["ttft_p50_ms"] == 200
    assert found["tokens_per_second"] == 20
    assert (found["requests"], found["failed"]) == (3, 1)


@pytest.mark.parametrize("size", [QUICK, FULL])
def test_every_rule_has_a_router(size: Size) -> None:
    assert set(size.rules) <= set(ROUTERS)
