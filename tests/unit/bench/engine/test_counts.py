import pytest

from bench.engine.counts import (
    Counts,
    decode_time,
    fallbacks,
    generated_tokens,
    own_time,
    pooled,
    running_requests,
)
from engine.drafting import NATIVE, Origin

SUFFIX = 1
METRICS = """\
# HELP engine_spec_step_seconds A step's time
engine_spec_step_seconds_bucket{le="0.1",phase="draft_cpu"} 7.0
engine_spec_step_seconds_sum{phase="target"} 9.0
engine_spec_step_seconds_sum{phase="draft"} 0.7
engine_spec_step_seconds_sum{phase="draft_cpu"} 0.5
engine_spec_step_seconds_count{phase="target"} 4.0
engine_spec_step_seconds_count{phase="draft"} 4.0
engine_spec_step_seconds_count{phase="draft_cpu"} 4.0
engine_spec_step_seconds_count{engine="1",phase="draft_cpu"} 2.0
vllm:request_decode_time_seconds_bucket{engine="0",le="0.3",model_name="m"} 2.0
vllm:request_decode_time_seconds_sum{engine="0",model_name="m"} 1.5
vllm:request_decode_time_seconds_sum{engine="1",model_name="m"} 0.25
"""


def answer(tokens: int, *steps: tuple[int, int]) -> dict[str, object]:
    speculative = {
        "per_step_drafted": [drafted for drafted, _ in steps] or None,
        "per_step_accepted": [accepted for _, accepted in steps] or None,
    }
    return {
        "usage": {"completion_tokens": tokens, "prompt_tokens": 5},
        "metrics": {"speculative_decoding": speculative if steps else None},
    }


def test_failures_of_speculation_are_counted_whatever_their_cause() -> None:
    metrics = (
        'engine_spec_fallbacks_total{reason="A"} 2.0\n'
        'engine_spec_fallbacks_total{engine="1",reason="B"} 1.0\n'
    )

    assert fallbacks(METRICS + metrics) == 3
    assert fallbacks(METRICS) == 0


def test_an_answer_without_drafts_is_plain_steps() -> None:
    counts = Counts(seconds=2.0)
    counts.take(answer(10))

    assert counts.tokens_per_second == 5.0
    assert (counts.length, counts.ratio) == (None, None)
    assert counts.steps == {"plain": 10}


def test_steps_and_tokens_count_for_the_source_that_drafted() -> None:
    grafted = Origin(NATIVE, SUFFIX, first_length=2)
    counts = Counts()
    counts.take(answer(13, (Origin(SUFFIX).encode(4), 3), (grafted.encode(6), 5), (8, 0)))

    assert counts.drafted == {"suffix": 8, "native": 2, "vllm": 8}
    assert counts.accepted == {"suffix": 6, "native": 2}
    assert counts.steps == {"suffix": 1, "native": 1, "vllm": 1, "plain": 2}
    assert counts.length == pytest.approx(1 + 8 / 3)
    assert counts.ratio == pytest.approx(8 / 18)


def test_a_last_step_that_was_cut_is_not_a_negative_number_of_plain_ones() -> None:
    counts = Counts()
    counts.take(answer(3, (8, 8)))

    assert counts.steps["plain"] == 0


def test_rounds_weigh_as_they_are_long() -> None:
    total = pooled([Counts(tokens=10, seconds=1.0), Counts(tokens=10, seconds=9.0)])

    assert total.tokens_per_second == 2.0


def test_our_own_time_is_the_cpu_time_of_drafting() -> None:
    assert own_time(METRICS) == (0.5, 6.0)
    assert own_time("vllm:num_requests_running 0.0\n") == (0.0, 0.0)


def test_own_time_is_reported_per_step() -> None:
    assert Counts(own_seconds=0.001, own_steps=10).own_us_per_step == pytest.approx(100.0)
    assert Counts().own_us_per_step is None


def test_decoding_begins_at_the_first_token() -> None:
    assert decode_time(METRICS) == 1.75
    assert Counts(requests=2, tokens=12, decode_seconds=0.5).decoded_per_second == 20.0


def test_tokens_and_requests_are_read_from_metrics() -> None:
    shown = (
        'vllm:generation_tokens_total{engine="0"} 1.2e+03\n'
        'vllm:generation_tokens_total{engine="1"} 5.0\n'
        'vllm:num_requests_running{engine="0"} 2.0\n'
        'vllm:num_requests_waiting{engine="0"} 1.0\n'
        'vllm:num_requests_waiting_by_reason{engine="0"} 1.0\n'
    )

    assert generated_tokens(shown) == 1205
    assert running_requests(shown) == 3
    assert (generated_tokens(""), running_requests("")) == (0, 0)
