"""vLLM's adaptive verification: a budget for the step, and its tokens by survival."""

from dataclasses import replace

import numpy as np

from bench.gate_sim.adaptive import Adaptive
from engine.simulation.rule import View
from tests.unit.bench.gate_sim.worlds import curve_of, view_of


def view(confidence: list[float], room: int = 32) -> View:
    found = view_of(offered=[0] * len(confidence), stated=[0.0] * len(confidence), room=room)
    offers = replace(found.offers, confidence=np.array([[each] * 3 for each in confidence]))
    return replace(found, offers=offers)


def second_lengths(rule: Adaptive, seen: View) -> list[int]:
    rule.decide(seen)  # there are no confidences of an earlier step in the first
    lengths: list[int] = rule.decide(seen).lengths[0].tolist()
    return lengths


def test_tokens_that_cost_nothing_are_all_verified() -> None:
    assert second_lengths(Adaptive(curve_of(a_token=0.0), 1), view([0.9, 0.1])) == [3, 3]


def test_dear_tokens_are_not_verified() -> None:
    assert second_lengths(Adaptive(curve_of(a_token=5.0), 1), view([0.5, 0.1])) == [0, 0]


def test_the_likeliest_tokens_of_all_sequences_are_verified() -> None:
    # 1.9 tokens for 1.6 s with the first one; each further one would bring less for its time.
    lengths = second_lengths(Adaptive(curve_of(a_token=0.3, base=1.0), 1), view([0.9, 0.2]))

    assert lengths[0] > lengths[1] == 0


def test_no_more_is_verified_than_a_request_may_get() -> None:
    assert second_lengths(Adaptive(curve_of(a_token=0.0), 1), view([0.9, 0.9], room=1)) == [1, 1]
