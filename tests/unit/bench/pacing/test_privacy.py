"""The eavesdropper is tested on runs it was not trained on, and sees times and sizes only."""

from dataclasses import replace

import pytest

from bench.client import Exchange
from bench.pacing.patterns import ANSWER, Chunk, Pattern
from bench.pacing.plan import FULL, QUICK, Plan
from bench.pacing.privacy import folds_of, observed


def answers(plan: Plan) -> list[Pattern]:
    return [
        Pattern(f"{prompt}-{run}", ANSWER, [Chunk(0, "x", 1)], prompt, run)
        for prompt in range(3)
        for run in range(plan.runs)
    ]


@pytest.mark.parametrize("plan", [FULL, QUICK, replace(FULL, runs=7)], ids=["full", "quick", "odd"])
def test_every_fold_has_some_runs_of_every_prompt(plan: Plan) -> None:
    patterns = answers(plan)
    folds = folds_of(patterns, plan)

    for fold in range(plan.folds):
        tested = [p for p, its_fold in zip(patterns, folds, strict=True) if its_fold == fold]
        by_prompt = [[p.run for p in tested if p.prompt == prompt] for prompt in range(3)]
        assert by_prompt[0] == by_prompt[1] == by_prompt[2]
        assert plan.runs // plan.folds <= len(by_prompt[0]) < plan.runs / 2


def test_an_eavesdropper_sees_when_and_how_much() -> None:
    packets = [(101_000_000, b"abc"), (103_500_000, b"x" * 1_000)]
    times_ms, sizes = observed(Exchange(100_000_000, packets))

    assert list(times_ms) == [1.0, 3.5]
    assert list(sizes) == [3.0, 1000.0]
