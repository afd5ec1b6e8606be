"""What a trial compares, and where."""

from dataclasses import replace
from typing import Any

import pytest

from engine.drafting import Control
from engine.worker.trial import Conditions, Trial
from tests.unit.engine.worker.scripted_heads import Batch, ignore, loaded, scripted

USUAL = Conditions(price=0.2, goodput=0.0)


def play(trial: Trial, batch: Batch, steps: int, conditions: Conditions = USUAL) -> None:
    for _ in range(steps):
        trial.step(batch.run(trial.serving), conditions, batch.control, ignore)


def begun(serving: float, challenger: float, **fields: Any) -> Trial:
    return Trial(loaded(serving, "a"), loaded(challenger, "b"), late=(), **fields)


def test_both_heads_draft_at_the_same_places_in_one_step_of_four() -> None:
    trial = begun(1.0, 1.0)

    play(trial, Batch("x"), 16)

    assert scripted(trial.serving).asked == scripted(trial.challenger).asked == [[0]] * 4
    assert trial.contest.pairs == 3  # the last has no outcome yet


def test_a_few_sequences_are_compared_others_each_time() -> None:
    trial = begun(1.0, 1.0)

    play(trial, Batch(*"abcdefgh"), 8)

    first, second = scripted(trial.challenger).asked
    assert sorted(first + second) == list(range(8))
    assert scripted(trial.serving).asked == [first, second]


def test_the_difference_is_accepted_tokens_less_the_price() -> None:
    trial = begun(0.0, 1.0)

    play(trial, Batch("x"), 4 * 200)

    # Nothing of the serving head's is bought once it is known; all of the challenger's is right.
    assert trial.contest.mean == pytest.approx(3 - 3 * 0.2, abs=0.1)


def test_the_time_of_a_pass_counts_at_the_rate_of_tokens() -> None:
    trial = begun(1.0, 1.0)
    scripted(trial.challenger).seconds = 0.02

    play(trial, Batch("x"), 4 * 20, Conditions(0.2, goodput=500.0))

    assert trial.contest.mean < -0.5


def test_slow_passes_are_few() -> None:
    trial = begun(1.0, 1.0)
    scripted(trial.challenger).seconds = 0.4

    play(trial, Batch("x"), 4 * 20)

    assert len(scripted(trial.challenger).asked) == 3


def test_nothing_is_drafted_where_no_token_pays() -> None:
    trial = begun(1.0, 1.0)

    play(trial, Batch("x"), 16, Conditions(1.5, 0.0))

    assert scripted(trial.challenger).asked == []


def test_requests_that_ran_before_do_not_take_part() -> None:
    trial = Trial(loaded(1.0, "a"), loaded(1.0, "b"))
    batch = Batch("old")
    play(trial, batch, 12)
    assert scripted(trial.challenger).asked == []

    batch.requests.append("new")
    play(trial, batch, 16)
    assert trial.contest.pairs == 3

    trial.forget(["old"])
    play(trial, batch, 16)
    assert trial.contest.pairs == 4 + 3 + 3


@pytest.mark.parametrize("control", [Control(head=False), Control(most=0)], ids=["source", "off"])
def test_requests_that_want_no_head_do_not_take_part(control: Control) -> None:
    trial, batch = begun(1.0, 1.0), Batch("x")
    batch.control = lambda _: control

    play(trial, batch, 16)

    assert scripted(trial.challenger).asked == []


def test_a_price_of_the_requests_own_is_used() -> None:
    trial, batch = begun(0.0, 1.0), Batch("x")
    batch.control = lambda _: replace(Control(), price=0.9)

    play(trial, batch, 4 * 200)

    assert trial.contest.mean == pytest.approx(3 - 3 * 0.9, abs=0.1)


def test_drafts_without_an_outcome_do_not_count() -> None:
    trial, batch = begun(1.0, 1.0), Batch("x")
    play(trial, batch, 4)

    trial.forget(["x"])
    trial.clear()
    play(trial, batch, 3)

    assert trial.contest.pairs == 0


class Memory:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def note(self, *_: Any) -> None:
        self.calls.append("note")

    def view(self, _: Any) -> None:
        self.calls.append("view")

    def forget(self, _: Any) -> None:
        self.calls.append("forget")

    def clear(self) -> None:
        self.calls.append("clear")


def test_the_challengers_memory_follows_every_step() -> None:
    memory: Any = Memory()
    trial = Trial(loaded(1.0, "a"), replace(loaded(1.0, "b"), memory=memory), late=())
    batch = Batch("x")
    prompts: list[object] = []
    for _ in range(4):
        trial.step(batch.run(trial.serving), Conditions(0.2, 0.0), batch.control, prompts.append)
    trial.forget(["x"])
    trial.clear()

    assert memory.calls == ["note"] * 4 + ["view", "forget", "clear"]
    assert prompts == [memory] * 4
