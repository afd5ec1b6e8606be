import numpy as np

from bench.gate_sim.thresholds import SGLang, TensorRT
from engine.simulation.rule import Decision, Outcome
from tests.unit.bench.gate_sim.worlds import view_of

VIEW = view_of(offered=[32, 32], stated=[0.5, 0.5])


def outcome(accepted: int) -> Outcome:
    return Outcome(
        emitted=np.full((1, 2), 1 + accepted),
        head_right=np.zeros((1, 2), dtype=np.int64),
        tokens=np.array([2]),
        step_seconds=np.array([1.0]),
        head_seconds=np.array([0.0]),
    )


def lengths_after(rule: SGLang | TensorRT, accepted: int, steps: int) -> list[int]:
    """What is drafted for the first sequence, step by step."""
    found = []
    for _ in range(steps):
        decision: Decision = rule.decide(VIEW)
        found.append(int(decision.lengths[0, 0]))
        rule.observe(VIEW, decision, outcome(min(accepted, found[-1])))
    return found


def test_sglang_begins_with_three_and_waits_before_it_moves() -> None:
    lengths = lengths_after(SGLang(1, "suffix"), 0, 30)

    assert set(lengths[:15]) == {3}
    assert lengths[-1] == 1


def test_sglang_drafts_more_while_all_is_accepted() -> None:
    assert lengths_after(SGLang(1, "suffix"), 32, 40)[-1] == 7


def test_sglang_never_turns_off() -> None:
    assert min(lengths_after(SGLang(1, "suffix"), 0, 400)) == 1


def test_sglang_comes_back() -> None:
    rule = SGLang(1, "suffix")
    lengths_after(rule, 0, 100)

    assert lengths_after(rule, 32, 60)[-1] == 7


def test_tensorrt_turns_off_permanently_after_a_window_of_bad_steps() -> None:
    rule = TensorRT(1, "suffix")

    bad, good = lengths_after(rule, 1, 100), lengths_after(rule, 4, 500)

    assert bad[63] == 4
    assert bad[64] == 0
    assert set(good) == {0}


def test_tensorrt_stays_on_while_enough_is_accepted() -> None:
    assert set(lengths_after(TensorRT(1, "suffix"), 2, 300)) == {4}
