import pytest

from bench.head.timing import Timing

METRICS = """\
# HELP engine_spec_step_seconds A step's time.
# TYPE engine_spec_step_seconds histogram
engine_spec_step_seconds_bucket{le="0.001",phase="head"} 3.0
engine_spec_step_seconds_bucket{le="+Inf",phase="head"} 4.0
engine_spec_step_seconds_count{phase="head"} 4.0
engine_spec_step_seconds_sum{phase="head"} 0.008
engine_spec_step_seconds_count{phase="target"} 9.0
engine_spec_step_seconds_sum{phase="target"} 0.9
# HELP vllm:inter_token_latency_seconds Histogram of inter-token latency in seconds.
# TYPE vllm:inter_token_latency_seconds histogram
vllm:inter_token_latency_seconds_bucket{engine="0",le="+Inf",model_name="m"} 10.0
vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 10.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"} 0.16
"""


def test_only_the_heads_phase_is_a_head_pass() -> None:
    found = Timing.of_head_pass(METRICS)

    assert found == Timing(4.0, 0.008)
    assert found.mean == pytest.approx(0.002)


def test_a_step_is_what_vllm_times_between_tokens() -> None:
    assert Timing.of_step(METRICS).mean == pytest.approx(0.016)


def test_a_worker_without_a_head_has_timed_nothing() -> None:
    assert Timing.of_head_pass("") == Timing()


def test_a_round_is_what_was_added_since() -> None:
    assert (Timing(10, 0.5) - Timing(4, 0.2)).mean == pytest.approx(0.05)
