import numpy as np
import pytest

from engine.simulation import Stage, World, build_curve, build_library, course_of, simulate
from engine.simulation.schedules import Scheduled, fixed
from engine.tuning.replay import (
    HeadTrace,
    Recording,
    head_trace,
    measured_curve,
    record,
    simulated,
    typical_head,
    typical_pass,
    with_prompts,
)
from engine.tuning.variants import Variant
from tests.unit.bench.gate_sim.worlds import SURE
from tests.unit.engine.tuning.figures import measurement

OFF, SUFFIX, BOTH = Variant(()), Variant(("suffix",)), Variant(("suffix", "head"))
FLAT = build_curve("flat", step_ms={1: [(1, 10.0), (512, 12.0)]}, head_ms=[(1, 1.0)])
COPY = list(range(100, 160))


def recording(answers: list[list[int]]) -> Recording:
    return record([COPY] * len(answers), answers)


def test_what_repeats_the_prompt_is_offered_and_right() -> None:
    found = recording([COPY])

    assert found.lengths.tolist() == [59]
    assert found.right[10] == 32
    assert found.survival[10, 0] > 0.5
    assert (found.right <= found.offered).all()


def test_what_nothing_said_before_is_not_offered() -> None:
    found = recording([list(range(1000, 1040)), [7]])

    assert found.lengths.tolist() == [39]
    assert not found.right.any()


def test_recorded_steps_of_a_head_are_where_they_were() -> None:
    found = head_trace(np.array([6, 3]), [[2, 0, 1], [1]], 3, states_confidence=True)

    assert found.right[[0, 3, 4]].tolist() == [2, 0, 1]
    assert found.right[6] == 1
    assert set(found.right.tolist()) <= {0, 1, 2}


def test_a_heads_confidence_is_right_on_average_and_higher_where_it_is_right() -> None:
    steps = [[1, 0, 0, 3, 0, 2, 0, 1] * 200]

    found = head_trace(np.array([4000]), steps, 3, states_confidence=True)

    hit = found.right > 0
    first = found.confidence[:, 0]
    assert first.mean() == pytest.approx(hit.mean(), abs=0.03)
    assert first[hit].mean() > first[~hit].mean() + 0.2


def test_a_drafter_without_confidence_states_the_rates_of_its_places() -> None:
    found = head_trace(np.array([300]), [[1, 0] * 100], 2, states_confidence=False)

    assert (found.confidence == found.confidence[0]).all()
    assert found.confidence[0, 0] == pytest.approx(0.5, abs=0.01)


def test_without_drafts_goodput_is_that_of_the_curve() -> None:
    found = recording([COPY])

    assert simulated(OFF, found, None, FLAT, 1) == pytest.approx(100.0, rel=0.01)
    assert simulated(OFF, found, None, FLAT, 4) == pytest.approx(400.0, rel=0.01)


def test_the_index_is_much_faster_on_copies_and_no_slower_on_new_text() -> None:
    copies, new = recording([COPY] * 3), recording([list(range(1000, 1060))])

    assert simulated(SUFFIX, copies, None, FLAT, 1) > 500.0
    assert simulated(SUFFIX, new, None, FLAT, 1) == pytest.approx(100.0, rel=0.02)


def test_a_head_helps_where_the_index_has_nothing() -> None:
    new = recording([list(range(1000, 1200))])
    sure = HeadTrace(np.full(199, 2), np.full((199, 2), 0.95))

    assert simulated(BOTH, new, sure, FLAT, 1) > 200.0


def test_it_is_the_simulator_of_the_gates_benchmark() -> None:
    """The same world, built by hand as bench/gate_sim builds it, gives the same speed."""
    texts = SURE.write_texts(64, 0)
    world = World(FLAT, build_library([[texts]]), course_of([Stage(1000, 3)]))
    rule = Scheduled([fixed(0, "suffix")])
    theirs = simulate(world, rule, np.zeros(1, dtype=np.int64)).speed(600, 3000)

    ours = simulated(
        OFF,
        Recording(
            texts.lengths,
            texts.offers.suffix_tokens,
            texts.offers.suffix,
            texts.truth.suffix_right,
        ),
        None,
        FLAT,
        3,
    )

    # Theirs reads prompts, a few steps in a hundred.
    assert ours == pytest.approx(3 * float(theirs[0]), rel=0.06)


def test_a_curve_takes_the_least_of_what_workers_learnt_and_never_falls() -> None:
    calm = measurement("suffix", step_ms=[(1, 10.0), (4, 12.0), (8, 99.0)])
    busy = measurement("head", step_ms=[(1, 15.0), (4, 11.0), (8, 14.0)])

    curve = measured_curve([calm, busy, measurement("off")], [])

    assert [round(float(curve.step[1, at]) * 1e3, 3) for at in (1, 4, 8)] == [10.0, 11.0, 14.0]


def test_a_typical_head_costs_a_tenth_of_a_step_and_survives_as_published() -> None:
    head, curve = typical_head(np.array([20_000])), typical_pass(FLAT)

    assert float(curve.head[1]) == pytest.approx(0.001)
    assert [(head.right > place).mean() for place in range(3)] == pytest.approx(
        [0.49, 0.25, 0.13], abs=0.02
    )


def test_the_time_of_prompts_is_the_same_at_any_concurrency() -> None:
    assert with_prompts({1: 200.0, 8: 800.0}, 0.01) == pytest.approx({1: 1 / 0.015, 8: 1 / 0.01125})
