"""What the recorder keeps of steps."""

from typing import Any

import pytest
import torch

from engine.drafting import Control
from engine.traffic import DROP_REASONS, Stretch, digest_of
from engine.worker.collection import Recorder
from engine.worker.head import StepStates

HIDDEN = 4


class Writer:
    """Keeps what it is offered."""

    def __init__(self) -> None:
        self.offered: list[Stretch] = []
        self.dropped = dict.fromkeys(DROP_REASONS, 0)

    def offer(self, stretch: Stretch) -> None:
        self.offered.append(stretch)


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
def recorder(writer: Any) -> Recorder:
    def control(request: str) -> Control:
        return Control(tenant=f"tenant of {request}", adapt=not request.startswith("private"))

    return Recorder(writer, control, target="model")


def hidden(rows: int, first: int = 0) -> torch.Tensor:
    """States that name themselves."""
    return torch.arange(first, first + rows).float()[:, None].expand(-1, HIDDEN)


def step(recorder: Recorder, requests: list[str], tokens: list[list[int]], first: int = 0) -> None:
    drafted = [len(some) for some in tokens]  # one more state than tokens: the last was refused
    states = hidden(sum(drafted) + len(drafted), first)
    recorder.take(requests, tokens, StepStates(states, drafted))


def test_tokens_are_stored_with_the_states_that_they_were_sampled_from(
    recorder: Recorder, writer: Writer
) -> None:
    recorder.note(["a"], [[7, 8]], hidden(10), [3])
    step(recorder, ["b", "a"], [[1], [20, 21, 22, 23]], first=100)
    step(recorder, ["a"], [[24, 25, 26, 27]], first=200)
    recorder.forget({"a", "unknown"})

    (stretch,) = writer.offered
    assert (stretch.tenant, stretch.request) == (digest_of("tenant of a"), digest_of("a"))
    assert stretch.prompt_rows == 2
    segment = stretch.segment()
    assert segment.tokens.tolist() == [7, 8, 20, 21, 22, 23, 24, 25, 26, 27]
    rows = [3, 4, 102, 103, 104, 105, 200, 201, 202, 203]
    assert segment.hidden[:, 0].tolist() == rows
    assert segment.hidden.dtype is torch.bfloat16
    assert list(recorder.requests) == ["b"]


def test_one_state_for_each_sequence_if_nothing_was_drafted(
    recorder: Recorder, writer: Writer
) -> None:
    for number in range(8):
        states = StepStates(hidden(2, first=10 * number), None)
        recorder.take(["private", "a"], [[0], [number]], states)
    recorder.clear()

    (stretch,) = writer.offered
    assert stretch.segment().hidden[:, 0].tolist() == [10 * n + 1 for n in range(8)]


def test_nothing_of_a_tenant_that_did_not_agree_is_kept(recorder: Recorder, writer: Writer) -> None:
    assert not recorder.wants("private")
    recorder.note(["private"], [[7, 8]], hidden(2), [0])
    step(recorder, ["private"], [list(range(20))])
    recorder.clear()
    step(recorder, ["private"], [list(range(20))])
    recorder.clear()

    assert writer.offered == []


def test_a_long_text_is_stored_in_parts(recorder: Recorder, writer: Writer) -> None:
    for _ in range(130):
        step(recorder, ["a"], [[1, 2, 3, 4, 5, 6, 7, 8]])
    recorder.clear()

    assert [len(stretch.tokens) for stretch in writer.offered] == [512, 512, 16]


def test_a_gap_begins_another_stretch_and_short_ones_are_left_out(
    recorder: Recorder, writer: Writer
) -> None:
    step(recorder, ["a", "b"], [list(range(8)), [1]])
    recorder.clear()
    step(recorder, ["a", "b"], [list(range(9)), [1]])
    recorder.clear()

    assert [len(stretch.tokens) for stretch in writer.offered] == [8, 9]


def test_a_prompt_that_is_read_again_begins_another_stretch(
    recorder: Recorder, writer: Writer
) -> None:
    step(recorder, ["a"], [list(range(8))])
    recorder.note(["a"], [[1, 2]], hidden(2), [0])
    step(recorder, ["a"], [list(range(8))])
    recorder.clear()

    assert [stretch.prompt_rows for stretch in writer.offered] == [0, 2]


def test_a_prompt_of_which_a_part_is_missing_is_not_kept(
    recorder: Recorder, writer: Writer
) -> None:
    recorder.note(["a", "b"], [[7, 8], [9]], hidden(10), [0, 2])
    step(recorder, ["b"], [list(range(8))])

    recorder.drop_prompts()
    step(recorder, ["a", "b"], [list(range(8)), [8]])
    recorder.clear()

    assert [(one.prompt_rows, list(one.tokens)) for one in writer.offered] == [
        (1, [9, *range(9)]),
        (0, list(range(8))),
    ]


def test_only_so_many_requests_are_recorded_at_once(recorder: Recorder) -> None:
    names = [f"r{number}" for number in range(70)]
    step(recorder, names, [[1]] * 70)

    assert len(recorder.requests) == 64


def test_an_error_drops_what_is_open(
    recorder: Recorder, writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    step(recorder, ["a", "b"], [[1], [2]])

    recorder.fail(ValueError("odd"))
    recorder.fail(ValueError("odd"))

    assert (writer.dropped["error"], list(recorder.requests)) == (2, [])
    assert len(caplog.records) == 1
