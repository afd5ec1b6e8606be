"""The drafter over the real suffix index: the life of requests, limits, errors, logs."""

import logging

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.drafting import Beginning, Control, Drafter, SuffixSource
from engine.drafting.origin import PREDICTION, SUFFIX, Origin
from engine.errors import SuffixCapacityError
from engine.policy import Gate, Limits
from engine.suffix import SuffixIndex
from tests.unit.engine.drafting.scripted import (
    CHEAP,
    DEAR,
    FREE,
    PROMPT,
    Head,
    begin,
    drafter,
    suffix,
)


class Failing(SuffixSource):
    """The real index, whose requests cannot begin or end while the test says so."""

    def __init__(self) -> None:
        super().__init__(SuffixIndex(1 << 22, salt=1))
        self.errors: dict[str, Exception] = {}

    def begin(self, request: str, control: Control, tokens: NDArray[np.int32]) -> None:
        if "begin" in self.errors:
            raise self.errors["begin"]
        super().begin(request, control, tokens)

    def end(self, request: str, *, keep: bool) -> None:
        super().end(request, keep=keep)
        if "end" in self.errors:
            raise self.errors["end"]


def test_a_draft_continues_the_prompt() -> None:
    drafts = drafter(suffix()).step(["r"], [[11, 12, 13]], begin(left=9))

    assert drafts.tokens == [[14, 15, 16, 17, 18]]
    assert drafts.origins == [Origin(SUFFIX)]


def test_a_draft_that_follows_the_prediction_says_so() -> None:
    control = Control(prediction=(1, 2, 3))

    drafts = drafter(suffix()).step(["r"], [[1]], begin(control, left=5))

    assert (drafts.tokens, drafts.origins) == ([[2, 3]], [Origin(PREDICTION)])


def test_a_sequence_without_tokens_does_not_begin() -> None:
    hybrid = drafter(suffix())

    drafts = hybrid.step(["a", "b"], [[], [11, 12]], begin())

    assert drafts.tokens == [[], PROMPT[2:]]
    assert drafts.origins == [None, Origin(SUFFIX)]
    assert list(hybrid.running) == ["b"]


def test_a_request_begins_once_and_is_then_fed() -> None:
    hybrid = drafter(suffix())
    hybrid.step(["r"], [[1, 2]], begin())
    hybrid.step(["r"], [[3, 4, 5, 6, 11]], begin())

    assert hybrid.step(["r"], [[1, 2]], begin()).tokens == [[3, 4, 5, 6, 11, 1, 2, 3]]


@pytest.mark.parametrize(
    ("control", "room", "most", "length"),
    [
        (Control(), 20, 8, 8),
        (Control(), 3, 8, 3),
        (Control(most=2), 20, 8, 2),
        (Control(most=50), 20, 8, 8),
        (Control(most=0), 20, 8, 0),
        (Control(suffix=False), 20, 8, 0),
        (Control(), 0, 8, 0),
        (Control(), -1, 8, 0),
    ],
    ids=["own limit", "no room", "asked", "asks too much", "off", "head", "full", "over"],
)
def test_the_shortest_limit_counts(control: Control, room: int, most: int, length: int) -> None:
    hybrid = drafter(suffix(), most=most)

    drafts = hybrid.step(["r"], [[11, 12]], begin(control, left=room + 3))

    assert len(drafts.tokens[0]) == length


def test_tokens_below_the_price_are_cut() -> None:
    prompt = [5, 7, 8, 9, 4, 3, 2, 1]

    free = drafter(suffix()).step(["r"], [[5]], begin(prompt=prompt))
    hybrid = drafter(suffix(), [(1, 1.0), (11, 3.0)])
    cheap = hybrid.step(["r"], [[5]], begin(prompt=prompt))

    assert free.tokens == [[*prompt[1:], 5]]
    assert 0 < len(cheap.tokens[0]) < 8
    assert hybrid.price == pytest.approx(0.2, abs=0.05)


def test_accepted_drafts_raise_the_price() -> None:
    """If drafts are accepted, a step yields more, and so its time is worth more."""
    prices = {}
    for accepted in (0, 8):
        hybrid = drafter(None, CHEAP, most=3)
        for _ in range(500):
            sampled = [7, 8, 9, 1] if accepted else [1]
            hybrid.step(["r"], [sampled], begin(), head=Head())
        prices[accepted] = hybrid.gate.price

    assert prices[8] > 1.5 * prices[0]


@pytest.mark.parametrize(
    ("written", "cost", "limits", "decision"),
    [
        ([11], FREE, Limits(min_acceptance_ratio=0.0), "drafted"),
        ([99], FREE, Limits(min_acceptance_ratio=0.0), "unknown"),
        ([11], FREE, Limits(max_batch_size=0, min_acceptance_ratio=0.0), "limited"),
    ],
    ids=["drafted", "unknown", "limited"],
)
def test_decisions_are_counted(
    written: list[int], cost: list[tuple[int, float]], limits: Limits, decision: str
) -> None:
    hybrid = drafter(suffix(), cost, limits=limits)
    hybrid.step(["r"], [written], begin())

    assert dict(hybrid.counters.decisions) == {decision: 1}


@pytest.mark.parametrize("keep", [True, False])
def test_an_answer_is_kept_or_not(keep: bool) -> None:
    hybrid = drafter(suffix())
    hybrid.step(["a"], [[1, 2, 3, 4]], begin())
    hybrid.end(["a", "unknown"], keep=keep)
    assert not hybrid.running

    drafts = hybrid.step(["b"], [[1, 2]], begin(prompt=[50]))

    assert drafts.tokens == [[3, 4] if keep else []]


def test_a_request_that_was_preempted_begins_again() -> None:
    hybrid = drafter(suffix())
    hybrid.step(["r"], [[1]], begin())
    hybrid.end(["r"], keep=True)

    drafts = hybrid.step(["r"], [[11, 12]], begin())

    assert drafts.tokens == [PROMPT[2:]]


def test_without_memory_a_request_has_no_drafts_of_the_index_and_others_have() -> None:
    source = Failing()
    hybrid = Drafter(source, Gate(FREE), most=8)
    source.errors["begin"] = SuffixCapacityError("full")
    hybrid.step(["a"], [[11, 12]], begin())
    source.errors.clear()

    drafts = hybrid.step(["a", "b"], [[11, 12], [11, 12]], begin())
    hybrid.end(["a", "b"], keep=True)

    assert drafts.tokens == [[], PROMPT[2:]]
    assert hybrid.counters.fallbacks == {"SuffixCapacityError": 1}


def test_an_error_at_the_begin_empties_the_drafts_and_the_next_step_begins_again() -> None:
    source = Failing()
    hybrid = Drafter(source, Gate(FREE), most=8)
    source.errors["begin"] = RuntimeError("broken")
    broken = hybrid.step(["r"], [[11]], begin())
    source.errors.clear()

    mended = hybrid.step(["r"], [[11, 12]], begin())

    assert (broken.tokens, broken.origins) == ([[]], [None])
    assert mended.tokens == [PROMPT[2:]]
    assert hybrid.counters.fallbacks == {"RuntimeError": 1}


def test_an_error_of_the_index_empties_the_drafts_of_all_sequences() -> None:
    source = suffix()
    hybrid = Drafter(source, Gate(FREE), most=8)
    hybrid.step(["a", "b"], [[1], [1]], begin())
    source.index.finish("b", keep=False)

    broken = hybrid.step(["a", "b"], [[11, 12], [11, 12]], begin())
    mended = hybrid.step(["a", "b"], [[11, 12], [11, 12]], begin())

    assert (broken.tokens, broken.origins) == ([[], []], [None, None])
    # Once in the step, and once where the request was to be ended.
    assert hybrid.counters.fallbacks == {"UnknownRequestError": 2}
    assert mended.tokens == [PROMPT[2:]] * 2
    assert source.index.stats().requests == 2


def test_an_error_of_the_caller_is_no_exception() -> None:
    def lost(request: str) -> Beginning:
        raise KeyError(request)

    assert drafter(suffix()).step(["r"], [[1]], lost).tokens == [[]]


def test_an_error_before_a_step_counts_like_one_in_it() -> None:
    hybrid = drafter(suffix())
    hybrid.step(["r"], [[1]], begin())

    drafts = hybrid.fail(KeyError("r"), ["r", "unknown"])

    assert (drafts.tokens, drafts.origins) == ([[], []], [None, None])
    assert hybrid.counters.fallbacks == {"KeyError": 1}
    assert not hybrid.running


def test_errors_before_steps_do_not_prolong_a_pause() -> None:
    hybrid = drafter(suffix())
    for _ in range(40):
        hybrid.fail(KeyError("r"), ["r"])
    assert hybrid.counters.paused

    for _ in range(64):
        hybrid.step(["r"], [[1]], begin())

    assert not hybrid.counters.paused


def test_an_error_at_the_end_of_a_request_is_counted() -> None:
    source = Failing()
    hybrid = Drafter(source, Gate(FREE), most=8)
    hybrid.step(["r"], [[1]], begin())
    source.errors["end"] = RuntimeError("broken")

    hybrid.end(["r"], keep=True)

    assert hybrid.counters.fallbacks == {"RuntimeError": 1}
    assert not hybrid.running


def test_repeated_errors_pause_speculation_and_a_success_resumes_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Failing()
    source.errors["begin"] = RuntimeError("broken")
    hybrid = Drafter(source, Gate(FREE), most=8)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            hybrid.step(["r"], [[11, 12]], begin())
    assert hybrid.counters.paused
    assert not hybrid.running

    source.errors.clear()
    plain = 0
    while not hybrid.step(["r"], [[11, 12]], begin()).tokens[0]:
        plain += 1

    assert plain == hybrid.counters.decisions["paused"] == 63
    assert not hybrid.counters.paused
    assert [record.message for record in caplog.records] == [
        "speculation failed; the affected requests decode without drafts",
        "speculation is paused after repeated errors; requests decode without drafts",
    ]


def test_a_request_at_another_position_is_the_same() -> None:
    """Positions change from step to step, and names come as equal strings."""
    hybrid = drafter(suffix())
    hybrid.step(["a", "b", "c"], [[1, 2, 11], [3], [5, 6, 12]], begin())
    hybrid.end(["b"], keep=False)

    drafts = hybrid.step(["c", "".join(["", "a"]), "b"], [[5], [1], [11]], begin())

    assert [tokens[:2] for tokens in drafts.tokens] == [[6, 12], [2, 11], [12, 13]]


def test_wrong_arguments_empty_the_drafts() -> None:
    hybrid = drafter(suffix())

    assert hybrid.step(["a", "b"], [[1]], begin()).tokens == [[], []]
    assert hybrid.step(["a"], [["one"]], begin()).tokens == [[]]  # type: ignore[list-item]
    assert hybrid.step(["a"], [[2**40]], begin()).tokens == [[]]
    assert hybrid.counters.fallbacks == {"ValueError": 2, "TypeError": 1}


def test_a_name_that_is_not_unicode_empties_the_drafts() -> None:
    hybrid = drafter(suffix())

    assert hybrid.step(["\ud800"], [[1]], begin()).tokens == [[]]
    assert hybrid.counters.fallbacks == {"UnicodeEncodeError": 2}


def test_a_fixed_price_holds_for_requests_without_one_of_their_own() -> None:
    gate = Gate(DEAR)
    hybrid = Drafter(suffix(), gate, most=8, fixed_price=0.4)
    controls = {"none": Control(), "own": Control(price=0.2)}

    drafts = hybrid.step(
        ["none", "own"], [[11], [11]], lambda name: begin(controls[name])(name)
    ).tokens

    assert 0 < len(drafts[0]) < len(drafts[1])
    assert gate.price > 0.9


def test_the_gate_reports_once_that_it_shut(caplog: pytest.LogCaptureFixture) -> None:
    hybrid = drafter(None, DEAR)
    with caplog.at_level(logging.INFO, "engine.drafting.drafter"):
        for _ in range(300):
            hybrid.step(["r"], [[1]], begin(), native=[[7]])

    (record,) = caplog.records
    assert record.message.startswith("the gate is shut: priced_out; price ")
    assert hybrid.counters.decisions["probed"] > 0
    assert hybrid.counters.decisions["priced_out"] > 200
