from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from bench.gate_sim.processes import Process
from engine.simulation.course import Stage, course_of
from engine.simulation.engine import Record, World, simulate
from engine.simulation.rule import Decision, Outcome, View
from engine.simulation.schedules import Scheduled, fixed
from tests.unit.bench.gate_sim.worlds import HOPELESS, SURE, curve_of, world_of

SEEDS = np.array([0, 1])


class Watched:
    """Drafts a fixed number of tokens, and keeps what it saw."""

    def __init__(self, tokens: int = 0) -> None:
        self.views: list[View] = []
        self.outcomes: list[Outcome] = []
        self._rule = Scheduled([fixed(tokens, "suffix")] * len(SEEDS))

    def decide(self, view: View) -> Decision:
        self.views.append(view)
        return self._rule.decide(view)

    def observe(self, view: View, decision: Decision, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def run(world: World, tokens: int = 0) -> tuple[Record, Watched]:
    rule = Watched(tokens)
    return simulate(world, rule, SEEDS), rule


def test_without_drafts_a_sequence_gets_one_token_per_step() -> None:
    _, rule = run(world_of(curve_of(a_token=0.1)))

    for view, outcome in zip(rule.views, rule.outcomes, strict=True):
        assert set(outcome.emitted[view.decoding].tolist()) == {1}


def test_a_step_takes_the_time_of_the_curve_for_sequences_prompts_and_drafts() -> None:
    record, rule = run(world_of(curve_of(a_token=0.1, base=2.0)), tokens=3)

    tokens = np.array([outcome.tokens for outcome in rule.outcomes])
    assert np.allclose(record.seconds, 2.0 + 0.1 * tokens)
    decoding = np.array([view.decoding.sum(1) for view in rule.views])
    prompts = np.array([view.prompt_tokens for view in rule.views])
    assert np.array_equal(tokens, decoding + prompts + record.drafted)


def test_measured_times_are_noise_around_the_true_ones() -> None:
    record, rule = run(world_of(curve_of(a_token=0.1), tokens=400))

    measured = np.array([outcome.step_seconds for outcome in rule.outcomes])
    assert not np.allclose(measured, record.seconds)
    assert float((measured / record.seconds).mean()) == pytest.approx(1.0, abs=0.02)


def test_context_grows_with_every_token() -> None:
    _, rule = run(world_of(curve_of(a_token=0.0), seats=1))
    contexts = [int(view.context[0]) for view in rule.views[:2]]

    assert contexts[1] == contexts[0] + 1


def test_a_request_is_prefilled_before_it_decodes_and_then_replaced() -> None:
    _, rule = run(world_of(curve_of(a_token=0.0), seats=1, tokens=150))

    requests = [int(view.requests[0, 0]) for view in rule.views]
    begins = [i for i in range(1, len(requests)) if requests[i] != requests[i - 1]]
    assert requests == sorted(requests)
    assert len(begins) >= 2
    for begin in begins:
        assert rule.views[begin].prefilling[0, 0]
        assert not rule.views[begin].decoding[0, 0]
        assert rule.outcomes[begin].emitted[0, 0] == 1


def test_a_long_prompt_takes_several_steps() -> None:
    long = replace(SURE, prompt_tokens=4000.0)
    _, rule = run(world_of(curve_of(a_token=0.0), long, seats=2, tokens=150))

    prompts = [int(view.prompt_tokens[0]) for view in rule.views]
    assert max(prompts) <= 2048
    assert any(before and after for before, after in pairwise(prompts))


def test_what_a_step_leaves_unread_is_known_before_the_next() -> None:
    long = replace(SURE, prompt_tokens=4000.0)
    _, rule = run(world_of(curve_of(a_token=0.0), long, seats=2, tokens=150))

    views = [
        (view.unread_sequences[0], view.unread_tokens[0], view.prompt_tokens[0])
        for view in rule.views
    ]
    assert any(sequences == 0 and prompt > 0 for sequences, _, prompt in views)
    assert any(sequences > 0 for sequences, _, _ in views)
    assert all(0 < tokens <= 2048 for sequences, tokens, _ in views if sequences)


def test_every_rule_generates_the_same_texts() -> None:
    world = world_of(curve_of(a_token=0.01), tokens=200)

    (_, plain), (_, drafting) = run(world), run(world, tokens=4)

    def lengths(rule: Watched) -> dict[int, int]:
        found: dict[int, int] = {}
        for view, outcome in zip(rule.views, rule.outcomes, strict=True):
            for request, tokens in zip(
                view.requests[0].tolist(), outcome.emitted[0].tolist(), strict=True
            ):
                found[request] = found.get(request, 0) + tokens
        return found

    ours, theirs = lengths(plain), lengths(drafting)
    ended = sorted(ours.keys() & theirs.keys())[:4]
    assert [ours[request] for request in ended] == [theirs[request] for request in ended]


def test_tokens_are_counted_as_expected_and_agree_with_those_that_came() -> None:
    record, rule = run(world_of(curve_of(a_token=0.01), tokens=2000), tokens=5)

    came = sum(int(outcome.emitted.sum()) for outcome in rule.outcomes)
    assert float(record.tokens.sum()) == pytest.approx(came, rel=0.05)
    assert not np.array_equal(record.tokens, np.round(record.tokens))


def test_the_same_seed_gives_the_same_run() -> None:
    world = world_of(curve_of(a_token=0.1))

    first, again = run(world, tokens=2)[0], run(world, tokens=2)[0]

    assert np.array_equal(first.seconds, again.seconds)
    assert not np.array_equal(first.tokens[:, 0], first.tokens[:, 1])


def test_stages_change_seats_texts_and_times_for_each_lane_when_it_gets_there() -> None:
    stages = [Stage(40, 2), Stage(40, 6, phase=1, slow=3.0), Stage(40, 2, steep=2.0)]
    course = course_of(stages)
    world = world_of(curve_of(a_token=0.1, base=1.0), SURE, HOPELESS, course=course)

    record, rule = run(world, tokens=3)

    tokens = np.array([outcome.tokens for outcome in rule.outcomes])
    sequences = np.array([(view.decoding | view.prefilling).sum(1) for view in rule.views])
    stage = course.stage(record.before.ravel()).reshape(record.before.shape)
    assert set(sequences[stage == 1].tolist()) == {6}
    assert set(sequences[stage != 1].tolist()) == {2}
    assert np.allclose(record.seconds[stage == 1], 3.0 * (1.0 + 0.1 * tokens[stage == 1]))
    steep = 1.0 + 0.1 * sequences + 0.2 * (tokens - sequences)
    assert np.allclose(record.seconds[stage == 2], steep[stage == 2])
    assert record.accepted[stage == 1].sum() < record.accepted[stage != 1].sum()


def open_world(kind: Process, per_second: float) -> World:
    course = course_of([Stage(200, 4)], per_second=per_second)
    return world_of(curve_of(a_token=0.0), kind, course=course)


def test_few_arrivals_leave_seats_empty_and_no_request_waits() -> None:
    _, rule = run(open_world(SURE, 0.01))

    late = rule.views[-20:]
    assert max(int(view.waiting.max()) for view in late) == 0
    assert np.mean([view.decoding.sum() for view in late]) < 4


def test_many_arrivals_wait_and_waiting_counts() -> None:
    record, rule = run(open_world(SURE, 1.0))

    assert int(rule.views[-1].waiting.min()) > 10
    assert (record.request_seconds[-1] > 10 * record.seconds[-1]).all()
    assert (record.speed(0, 400) > record.speed(400, 800)).all()


def test_speed_counts_only_what_lies_between_the_marks() -> None:
    ones = np.ones((4, 1))
    before = np.array([[0], [10], [20], [30]])
    seconds = np.array([[1.0], [2.0], [4.0], [8.0]])
    none = np.zeros((4, 1), dtype=np.int64)
    record = Record(before, 10 * ones, seconds, seconds, none, none, none)

    assert record.speed(10, 30).tolist() == pytest.approx([20 / 6])


def test_a_draft_longer_than_the_answer_is_a_mistake() -> None:
    class TooLong(Watched):
        def decide(self, view: View) -> Decision:
            decision = super().decide(view)
            return replace(decision, lengths=view.room + 1)

    with pytest.raises(AssertionError, match="longer than what is left"):
        simulate(world_of(curve_of(a_token=0.0)), TooLong(), SEEDS)
