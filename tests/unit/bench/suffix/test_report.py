from dataclasses import replace

import pytest

from bench.suffix.datasets import DataSet
from bench.suffix.replay import Figures
from bench.suffix.report import Pairing, Side, compare, describe_set, headline

THEIRS = Figures(
    answer_tokens=100, prompt_tokens=10, steps=50, accepted=50, drafted=100, append_ns=800,
    propose_sum_ns=5_000, prompt_ns=10, stated_loss=1, raw_loss=1,
)  # fmt: skip
OURS = replace(THEIRS, accepted=60, drafted=80, append_ns=80, propose_sum_ns=1_000, raw_loss=4)
SETS = [DataSet("trace_a", True, [], 0), DataSet("chat", False, [], 0)]
PERCENTILES = {"p50": 1.0, "p99": 2.0, "p999": 3.0}


def side(edit: Figures, chat: Figures) -> Side:
    replay = {"trace_a": edit, "chat": chat}
    return Side(
        setting={name: {} for name in replay},
        rounds=[replay, replay],
        propose_ns=[PERCENTILES, PERCENTILES],
        token_cost=lambda figures: figures.append_token_ns,
    )


def pairing(ours: Side) -> Pairing:
    return Pairing(ours, side(THEIRS, THEIRS), curve=ours.rounds)


def test_quality_is_of_edit_sets_and_the_worst_of_all_sets() -> None:
    found = compare(pairing(side(OURS, replace(OURS, accepted=40))), SETS)

    assert found["ratio_accepted_per_step"] == pytest.approx(1.2)
    assert found["ratio_accepted_per_step_all_sets"] == pytest.approx(1.0)
    assert found["ratio_drafted_per_step"] == pytest.approx(0.8)
    assert found["worst_dataset_ratio_accepted"] == pytest.approx(0.8)
    assert found["worst_dataset"] == "chat"


def test_the_headline_takes_the_times_that_flatter_less() -> None:
    slow = replace(OURS, append_ns=400)
    default = compare(pairing(side(OURS, OURS)), SETS)
    best = compare(pairing(side(slow, slow)), SETS)

    found = headline(default, best)

    assert found["ratio_append_time"] == pytest.approx(0.5)
    assert found["ratio_append_time_vs_default"] == pytest.approx(0.1)
    assert found["ratio_append_time_vs_best_spread"] == pytest.approx([0.5, 0.5])
    assert found["ratio_log_loss"] == pytest.approx(0.25)


def test_a_data_set_has_both_sides_of_each_pairing() -> None:
    found = describe_set(SETS[0], {"default": pairing(side(OURS, OURS))})

    assert isinstance(found["default"], dict)
    assert found["default"]["ours"]["accepted_per_step"] == pytest.approx(1.2)
    assert found["default"]["accepted_at_085_drafted"] == pytest.approx(1.2)
