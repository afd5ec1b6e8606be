from dataclasses import replace

import numpy as np
import pytest

from bench.gate_sim.plan import CURVES
from engine.simulation.curve import MOST_SEQUENCES, load_curve
from engine.simulation.rule import Decision, View
from engine.simulation.schedules import Schedule, Scheduled, Source, fixed, vllm_schedule
from engine.simulation.texts import HEAD
from tests.unit.bench.gate_sim.worlds import curve_of, view_of


def decide(schedule: Schedule, view: View) -> Decision:
    return Scheduled([schedule]).decide(view)


def test_none_drafts_nothing_and_runs_no_head() -> None:
    decision = decide(fixed(0, "both"), view_of(offered=[8, 0], stated=[1.0, 0.0]))

    assert decision.lengths.tolist() == [[0, 0]]
    assert decision.head_sequences.tolist() == [0]


def test_a_fixed_number_is_drafted_where_so_many_are_offered() -> None:
    decision = decide(fixed(4, "suffix"), view_of(offered=[8, 3, 0], stated=[0.1] * 3))

    assert decision.lengths.tolist() == [[4, 3, 0]]
    assert not decision.from_head.any()


def test_the_head_drafts_for_every_sequence_up_to_its_positions() -> None:
    decision = decide(fixed(8, "head"), view_of(offered=[8, 0], stated=[1.0, 0.0]))

    assert decision.lengths.tolist() == [[HEAD, HEAD]]
    assert decision.head_sequences.tolist() == [2]


@pytest.mark.parametrize(("chance", "is_head"), [(0.9, False), (0.2, True)], ids=["sure", "unsure"])
def test_with_both_the_head_runs_where_the_suffix_draft_is_not_sure(
    chance: float, is_head: bool
) -> None:
    decision = decide(fixed(8, "both"), view_of(offered=[8], stated=[chance]))

    assert decision.from_head.tolist() == [[is_head]]
    assert decision.head_sequences.tolist() == [int(is_head)]


@pytest.mark.parametrize("source", ["suffix", "head", "both"])
def test_no_draft_is_longer_than_what_is_left(source: Source) -> None:
    decision = decide(fixed(8, source), view_of(offered=[8, 8], stated=[0.9, 0.1], room=1))

    assert decision.lengths.max() == 1


def test_a_schedule_depends_on_all_sequences_of_the_step() -> None:
    tokens = np.zeros(MOST_SEQUENCES + 1, dtype=np.int64)
    tokens[2] = 5
    schedule = Schedule("two", "suffix", tokens)
    view = view_of(offered=[8, 8], stated=[0.9, 0.9])
    busy = replace(
        view,
        decoding=np.array([[True, True, False]]),
        positions=np.array([[0, 1, 0]]),
        room=np.array([[32, 32, 0]]),
        prefilling=np.array([[False, False, True]]),
    )

    assert decide(schedule, view).lengths.tolist() == [[5, 5]]
    assert decide(schedule, busy).lengths.tolist() == [[0, 0, 0]]


def test_vllms_schedule_drafts_less_at_larger_batches_and_stops() -> None:
    schedule = vllm_schedule(curve_of(a_token=0.05), "suffix")

    assert schedule.tokens[1] > schedule.tokens[16] >= schedule.tokens[256]
    assert schedule.tokens[256] == 0


def test_vllms_schedule_drafts_all_it_can_where_tokens_cost_nothing() -> None:
    schedule = vllm_schedule(curve_of(a_token=0.0), "head")

    assert set(schedule.tokens[1:].tolist()) == {HEAD}


def test_vllms_schedule_has_a_threshold_on_the_default_profiles_curve() -> None:
    schedule = vllm_schedule(load_curve(CURVES / "cpu-smollm2.yaml"), "suffix")

    assert len(set(schedule.tokens[1:].tolist())) > 2
