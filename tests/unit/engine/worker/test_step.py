"""Our part of a step, with the real drafter over the real suffix index."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from engine.drafting import Beginning, Control, Drafter, InFlight, Origin, StepDrafts
from engine.drafting.origin import SUFFIX
from engine.heads import DraftHead, HeadMemory
from engine.policy import Gate, Launch
from engine.suffix import SuffixIndex
from engine.worker.head import StepStates
from engine.worker.heads import Change
from engine.worker.metrics import DraftingMetrics
from engine.worker.step import NextStep, SampledStep, StepDrafting, StepTimer, TimedStep
from engine.worker.trial import LoadedHead
from tests.unit.engine.worker.scripted_heads import loaded

TEXT = (1, 2, 3, 4, 5, 6, 1, 2, 3)


class Recording(Drafter):
    """The real drafter; keeps what it is told."""

    def __init__(self) -> None:
        index = SuffixIndex(1 << 22, salt=1)
        super().__init__(index, Gate(((1, 1.0), (64, 1.0))), most=8)
        self.told: list[dict[str, Any]] = []
        self.begun: list[Beginning] = []

    def step(
        self,
        requests: Sequence[str],
        sampled: Sequence[Sequence[int]],
        begin: Callable[[str], Beginning],
        **told: Any,
    ) -> StepDrafts:
        def recorded(request: str) -> Beginning:
            self.begun.append(begin(request))
            return self.begun[-1]

        self.told.append(told)
        return super().step(requests, sampled, recorded, **told)


class Requests:
    """A runner's batch in which every request has the same text."""

    def __init__(self) -> None:
        self.controls_read: list[str] = []
        self.noted = 0
        self.error: Exception | None = None

    def text(self, request: str) -> NDArray[np.int32]:
        return np.array(TEXT, np.int32)

    def left(self, request: str) -> int:
        return 9

    def control(self, request: str) -> Control:
        self.controls_read.append(request)
        return Control(tenant=request)

    def note_prompts(self, memory: Any, wants: Callable[[str], bool]) -> None:
        if self.error is not None:
            raise self.error
        self.noted += 1


class Memory:
    """A head's memory; counts its calls."""

    def __init__(self) -> None:
        self.cleared = 0
        self.forgotten: list[str] = []

    def note(self, *_: Any) -> None:
        pass

    def forget(self, requests: Sequence[str]) -> None:
        self.forgotten += requests

    def clear(self) -> None:
        self.cleared += 1


@pytest.fixture
def requests() -> Requests:
    return Requests()


@pytest.fixture
def drafting(requests: Requests) -> StepDrafting:
    return StepDrafting(Recording(), DraftingMetrics(CollectorRegistry()), requests)


def told(drafting: StepDrafting) -> dict[str, Any]:
    assert isinstance(drafting.drafter, Recording)
    return drafting.drafter.told[-1]


def sampled(*requests: str, **fields: Any) -> SampledStep:
    """A step in which each request got the last token of its text."""
    count = len(requests)
    return SampledStep(requests, [[TEXT[-1]]] * count, [0] * count, tokens=count, **fields)


def test_a_request_begins_with_the_text_before_the_step(drafting: StepDrafting) -> None:
    drafting.begin((), ())
    drafts = drafting.draft(sampled("a"))

    assert isinstance(drafting.drafter, Recording)
    (beginning,) = drafting.drafter.begun
    assert beginning.tokens.tolist() == list(TEXT[:-1])
    assert (beginning.control, beginning.left) == (Control(tenant="a"), 10)
    assert drafts.tokens[0][:3] == [4, 5, 6]


def test_what_a_request_asks_for_is_read_once(drafting: StepDrafting, requests: Requests) -> None:
    for gone in (), ("a",):
        drafting.begin((), gone)
        drafting.draft(sampled("a", "b"))

    assert requests.controls_read == ["a", "b"]


def test_finished_requests_are_forgotten(drafting: StepDrafting, requests: Requests) -> None:
    memory = give_head(drafting)
    drafting.draft(sampled("a", "b", "c"))

    drafting.begin(["a"], ["b"])

    assert list(drafting.drafter.running) == ["c"]
    assert memory.forgotten == ["a", "b"]
    drafting.draft(sampled("a"))
    assert requests.controls_read == ["a", "b", "c", "a"]


def test_the_drafter_is_told_what_the_scheduler_knows(drafting: StepDrafting) -> None:
    drafting.draft(sampled("a", next_step=NextStep(1, 2, 3, 4, 5)))

    load = told(drafting)["load"]
    assert (load.prefill_tokens, load.context_tokens, load.waiting) == (1, 2, 3)
    assert (load.room_tokens, load.read_tokens) == (4, 5)


class TestHead:
    STATES = StepStates(None, None)  # no head runs here

    @pytest.mark.parametrize(
        ("step", "noted"),
        [
            (sampled("a"), 0),
            (sampled("a", has_new=True), 1),
            (sampled("a", next_step=NextStep(read_tokens=3)), 1),
            (SampledStep("a", [[]], [0], 1), 1),
        ],
        ids=["decoding", "new", "reading", "not yet decoding"],
    )
    def test_its_memory_records_prompts(
        self, drafting: StepDrafting, requests: Requests, step: SampledStep, noted: int
    ) -> None:
        give_head(drafting)

        drafting.draft(with_states(step, self.STATES))

        assert requests.noted == noted

    def test_an_error_in_its_memory_costs_only_its_drafts(
        self, drafting: StepDrafting, requests: Requests
    ) -> None:
        memory = give_head(drafting)
        requests.error = RuntimeError("broken")

        drafts = drafting.draft(with_states(sampled("a", has_new=True), self.STATES))

        assert drafts.origins == [Origin(SUFFIX)]
        assert drafting.drafter.counters.fallbacks == {"RuntimeError": 1}
        assert memory.cleared == 1


def give_head(drafting: StepDrafting) -> Memory:
    memory: Any = Memory()
    head: Any = object()
    drafting.heads.start(LoadedHead(head, 3, memory))
    return memory  # type: ignore[no-any-return]


def with_states(step: SampledStep, states: StepStates) -> SampledStep:
    return replace(step, states=states)


def test_the_gate_learns_how_long_a_step_took(drafting: StepDrafting) -> None:
    gate = drafting.drafter.gate
    for _ in range(40):
        drafting.begin((), ())
        drafting.draft(sampled("a"))

    assert gate.is_measured


def timed(*requests: str, head: float = 0.0) -> TimedStep:
    return TimedStep(requests, 5, 100, head)


class TestTimer:
    def test_a_step_lasts_until_the_next_one_begins(self) -> None:
        timer = StepTimer()
        first = timer.begin(10.0, ())
        timer.end(timed("a", "b", head=0.5))

        found = timer.begin(12.0, ["b"])

        assert first is None
        assert found == (timed("a", "b", head=0.5), 1.5)

    def test_a_step_is_not_timed_if_none_of_its_requests_continues(self) -> None:
        timer = StepTimer()
        timer.begin(10.0, ())
        timer.end(timed("a"))

        assert timer.begin(99.0, ["a", "x"]) is None

    def test_a_step_without_an_end_is_not_timed(self) -> None:
        timer = StepTimer()
        timer.begin(10.0, ())
        timer.end(timed("a"))
        timer.begin(11.0, ())

        assert timer.begin(12.0, ()) is None


def test_the_last_step_of_a_row_of_overlapping_ones_is_not_timed() -> None:
    timer = StepTimer()
    timer.begin(0.0, ())
    timer.end(TimedStep(["a"], 1, 1, 0.0, ahead=True))
    timer.begin(1.0, ())
    timer.end(TimedStep(["a"], 1, 1, 0.0, ahead=True))
    overlapping = timer.begin(2.0, ())
    timer.end(TimedStep(["a"], 1, 1, 0.0))

    assert overlapping is not None
    assert overlapping[1] == 1.0
    assert timer.begin(4.0, ()) is None
    timer.end(TimedStep(["a"], 1, 1, 0.0))
    alone = timer.begin(5.5, ())
    assert alone is not None
    assert alone[1] == 1.5


def test_the_choice_to_launch_ahead_learns_from_timed_steps() -> None:
    launch = Launch("ahead")
    drafting = StepDrafting(
        Recording(), DraftingMetrics(CollectorRegistry()), Requests(), launch=launch
    )
    for at in range(4):
        drafting.begin((), ())
        in_flight = InFlight([0]) if at == 2 else None
        drafting.draft(SampledStep(["r"], [[TEXT[at]]], [0], 1, in_flight=in_flight))
    drafting.begin((), ())

    assert drafting.goes_ahead
    assert drafting.launches() == {"waited": 2, "ahead": 1}  # the one behind it is not timed


@pytest.mark.parametrize(
    ("rule", "looks_back", "pays", "expected"),
    [
        ("ahead", False, True, 2),
        ("wait", False, True, None),
        ("ahead", True, True, None),
        ("ahead", False, False, None),
    ],
)
def test_the_head_drafts_on_the_device_where_it_can_and_that_pays(
    rule: Literal["ahead", "wait"], looks_back: bool, pays: bool, expected: int | None
) -> None:
    gate = Gate(((1, 1.0), (64, 1.0)), ((1, 0.01 if pays else 9.0),))
    drafter = Drafter(None, gate, most=8, head_most=3)
    launch = Launch(rule)
    drafting = StepDrafting(
        drafter, DraftingMetrics(CollectorRegistry()), Requests(), launch=launch
    )
    head, memory = (
        cast("DraftHead", object()),
        cast("HeadMemory", SimpleNamespace(clear=lambda: None)),
    )
    drafting.heads.start(LoadedHead(head, 2, memory if looks_back else None))
    drafting.draft(SampledStep(["r"], [[1]], [0], 1, in_flight=InFlight([0])))

    assert drafting.head_on_device() == (None if expected is None else (head, expected))


@pytest.mark.parametrize(
    ("cost", "control", "waits"),
    [(1.0, Control(), True), (640.0, Control(), False), (1.0, Control(head=False), False)],
    ids=["compared", "no draft pays", "no request takes the head's drafts"],
)
def test_steps_wait_while_heads_are_compared(cost: float, control: Control, waits: bool) -> None:
    drafter = Drafter(None, Gate(((1, 1.0), (64, cost)), ((1, 0.01),)), most=8, head_most=3)
    batch: Any = SimpleNamespace(
        text=lambda _: np.array(TEXT, np.int32), left=lambda _: 9, control=lambda _: control
    )
    metrics = DraftingMetrics(CollectorRegistry())
    drafting = StepDrafting(drafter, metrics, batch, launch=Launch("ahead"))
    drafting.heads.start(loaded(0.5, "old"))
    drafting.draft(sampled("r"))
    assert drafting.goes_ahead

    drafting.heads.offer(loaded(0.5, "new"), Change("1", "load", "test"))
    drafting.draft(sampled("r"))

    assert drafting.goes_ahead != waits


def test_without_async_scheduling_nothing_is_chosen(drafting: StepDrafting) -> None:
    drafting.draft(SampledStep(["r"], [[1]], [0], 1))

    assert not drafting.goes_ahead
    assert drafting.launches() == {}


class FailingRecorder:
    """A recorder whose disk, say, is on fire; and one that keeps what it is told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls: list[str] = []

    def wants(self, request: str) -> bool:
        return True

    def take(self, *_: Any) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append("take")

    def drop_prompts(self) -> None:
        self.calls.append("drop prompts")

    def clear(self) -> None:
        self.calls.append("clear")

    def forget(self, requests: Sequence[str]) -> None:
        self.calls.append(f"forget {len(requests)}")

    def fail(self, exc: Exception) -> None:
        self.calls.append(f"fail {exc}")


def test_traffic_is_recorded_where_there_are_states(
    drafting: StepDrafting, requests: Requests
) -> None:
    recorder: Any = FailingRecorder()
    drafting.recorder = recorder
    states = StepStates(torch.zeros(1, 4), None)

    drafting.begin((), ())
    drafting.draft(sampled("a", states=states, has_new=True))
    drafting.draft(sampled("a"))
    drafting.begin({"a"}, ())

    assert recorder.calls == ["forget 0", "forget 0", "take", "clear", "forget 1", "forget 0"]
    assert requests.noted == 1


def test_steps_that_were_launched_ahead_are_recorded_without_prompts(
    drafting: StepDrafting, requests: Requests
) -> None:
    recorder: Any = FailingRecorder()
    drafting.recorder = recorder
    states = StepStates(torch.zeros(1, 4), None)

    drafting.draft(sampled("a", states=states, is_latest=False, has_new=True))

    assert recorder.calls == ["drop prompts", "take"]
    assert requests.noted == 0


def test_an_error_of_the_recorder_leaves_drafts_as_they_are(drafting: StepDrafting) -> None:
    recorder: Any = FailingRecorder(OSError("full"))
    drafting.recorder = recorder

    drafting.begin((), ())
    drafts = drafting.draft(sampled("a", states=StepStates(torch.zeros(1, 4), None)))

    assert drafts.tokens[0][:3] == [4, 5, 6]
    assert recorder.calls[-1] == "fail full"
    assert drafting.drafter.counters.fallbacks == {}
