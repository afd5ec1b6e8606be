import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import WorkerLostError
from tests.unit.gateway.relay.smoothed import (
    BOUND_SECONDS,
    DONE,
    WORDS,
    Smoothed,
    Step,
    bursts,
    chunk,
    words_of,
)
from tests.unit.gateway.requests import RESPONSES

SCRIPT = st.lists(
    st.tuples(st.sampled_from([0.0, 0.0, 0.01, 0.02, 0.03, 0.08, 0.3, 1.0]), st.integers(0, 12)),
    min_size=1,
    max_size=25,
)


def scripted(script: Sequence[tuple[float, int]]) -> list[Step]:
    steps: list[Step] = []
    running = 0
    for gap, size in script:
        words = "".join(WORDS[(running + i) % len(WORDS)] for i in range(size))
        running += size
        steps += [gap, chunk(words, running)]
    return steps


@given(SCRIPT, st.just([]) | st.lists(st.booleans(), max_size=30))
@settings(max_examples=200)
def test_the_text_arrives_once_in_order_and_in_time(
    script: list[tuple[float, int]], full: list[bool]
) -> None:
    steps = [*scripted(script), DONE]

    smoothed = Smoothed(full=full).run(*steps)

    assert smoothed.text == words_of(steps)
    assert smoothed.sink.ended
    assert smoothed.sink.body.count(DONE) == 1
    assert smoothed.sink.body.endswith(DONE)
    assert sum(mark or 0 for mark in smoothed.marks) == sum(size for _, size in script)
    assert len(smoothed.added) == sum(size for _, size in script)
    assert full or max(smoothed.added, default=0.0) <= BOUND_SECONDS


@given(SCRIPT, st.floats(0.0, 2.0), st.lists(st.booleans(), max_size=10))
@settings(max_examples=150)
def test_a_stream_cut_anywhere_delivers_what_arrived_and_one_error(
    script: list[tuple[float, int]], cancel_after: float, full: list[bool]
) -> None:
    steps = [*scripted(script), DONE]

    smoothed = Smoothed(full=full).run(*steps, cancel_after=cancel_after)

    sent = [step for step in steps[: smoothed.source.taken] if isinstance(step, bytes)]
    whole = words_of([*sent, DONE]) if DONE not in sent else words_of(steps)
    assert smoothed.text == whole
    assert smoothed.sink.ended
    assert smoothed.sink.body.count(b'"error"') == (smoothed.error is not None)


def test_a_stream_that_becomes_even_passes_unchanged() -> None:
    steps = bursts(4, 1, 6)
    for running in range(13, 213):
        steps += [0.02, chunk(" word", running)]

    smoothed = Smoothed().run(*steps, DONE)

    assert smoothed.source.pauses == 2  # the first frame and the end
    assert max(smoothed.added[:60]) > 0.02
    assert len(smoothed.depths) < 150  # pieces sent in the two seconds after the bursts
    assert smoothed.sink.writes[-50:-1] == [
        chunk(" word", running).split(b',"usage"')[0] + b"}\n\n" for running in range(164, 213)
    ]


def test_a_trace_does_not_disturb_smoothing_and_is_never_behind_its_text() -> None:
    """One entry for each character of each word."""
    steps = [*bursts(12, 9, 7), DONE]
    traced = [traced_chunk(step) if isinstance(step, bytes) else step for step in steps[:-1]]

    plain, smoothed = Smoothed().run(*steps), Smoothed().run(*traced, DONE)

    assert smoothed.text == plain.text == words_of(steps)
    assert [write.seconds for write in smoothed.sink.timed] == [
        write.seconds for write in plain.sink.timed
    ]
    told, shown = "", ""
    for event in smoothed.events:
        told += "".join(entry for entry, _ in event.get("speculation", {}).get("trace", ()))
        shown += event["choices"][0]["delta"]["content"]
        assert told.startswith(shown)
    assert told == shown


def traced_chunk(frame: bytes) -> bytes:
    """A chunk with a trace whose entries name the characters of its text."""
    text = words_of([frame, DONE])
    trace = json.dumps([[character, 1] for character in text], separators=(",", ":"))
    return frame.removesuffix(b"}\n\n") + b',"speculation":{"trace":%b}}\n\n' % trace.encode()


def test_with_many_streams_pieces_are_larger_but_not_later() -> None:
    steps = [*bursts(*[3, 1, 4] * 20, gap=0.05), DONE]

    alone, busy = Smoothed().run(*steps), Smoothed().run(*steps, other_streams=1000)

    assert len(busy.depths) < 0.7 * len(alone.depths)
    assert max(busy.added) <= BOUND_SECONDS
    assert busy.text == alone.text


@pytest.mark.parametrize(
    "frame",
    [
        chunk(" x", 14, logprobs={"content": []}),
        chunk("", 14, delta={"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}),
        chunk("", 14, delta={"reasoning": "hm"}),
        b": note\n\n",
    ],
    ids=["logprobs", "tool-call", "reasoning", "comment"],
)
def test_any_other_frame_flushes_the_held_text_and_is_not_split(frame: bytes) -> None:
    steps = bursts(12)

    smoothed = Smoothed().run(*steps, frame, 1.0, DONE)

    at = [write.seconds for write in smoothed.sink.timed if write.data != DONE]
    assert at[-1] == pytest.approx(0.08)
    assert smoothed.text.startswith(words_of([*steps, DONE]))
    wanted = frame.split(b',"usage"')[0]
    assert wanted in smoothed.sink.body


def test_a_character_in_two_chunks_is_sent_in_one_piece() -> None:
    first, second = " space 👨\u200d", "🚀 is fun"
    smoothed = Smoothed().run(
        *bursts(4), 0.02, chunk(first, 9), 0.02, chunk(second, 12), 0.4, chunk("!", 13), 0.2, DONE
    )

    joint = [write for write in smoothed.sink.timed if "👨".encode() in write.data]
    assert first + second in smoothed.text
    assert ["🚀".encode() in write.data for write in joint] == [True]


def test_a_flood_is_not_held() -> None:
    flood: list[Step] = [chunk("x" * 400, 20 * number) for number in range(1, 200)]

    smoothed = Smoothed().run(chunk("a", 1), 0.02, chunk("b", 9), 0.02, *flood, DONE)

    assert max(smoothed.depths) <= 300
    assert len(smoothed.text) == 2 + 199 * 400


@pytest.mark.parametrize("is_lost", [False, True], ids=["complete", "lost"])
def test_events_of_responses_are_numbered_one_by_one(is_lost: bool) -> None:
    def event(kind: str, number: int, **more: Any) -> bytes:
        body = {"type": kind, "sequence_number": number, **more}
        return f"event: {kind}\ndata: {json.dumps(body)}\n\n".encode()

    position = {"item_id": "m", "output_index": 0, "content_index": 0, "logprobs": []}
    steps: list[Step] = [event("response.created", 0)]
    for number in range(1, 9):
        words = "".join(f" word{i}" for i in range(number % 3 * 4 + 1))
        steps += [0.06, event("response.output_text.delta", number, delta=words, **position)]
    end: Step = WorkerLostError("gone", sent=True)
    if not is_lost:
        steps.append(event("response.output_text.done", 9))
        end = event("response.completed", 10)

    smoothed = Smoothed(RESPONSES, store=False).run(*steps, end)

    numbers = [sent["sequence_number"] for sent in smoothed.events]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > 15
    deltas = (sent["delta"] for sent in smoothed.events if "delta" in sent)
    assert "".join(deltas).count("word") == 5 + 9 + 1 + 5 + 9 + 1 + 5 + 9
    assert smoothed.sink.ended


def test_text_of_one_read_is_smoothed_and_an_end_in_it_ends() -> None:
    steps = bursts(4)
    read = chunk(" one two three", 9) + chunk(" four five six", 12)
    smoothed = Smoothed().run(*steps, 0.08, read, 0.08, read + chunk(" end", 30) + DONE)

    assert smoothed.text == words_of([*steps, read, read, chunk(" end", 30), DONE])
    assert len({write.seconds for write in smoothed.sink.timed}) > 6
    assert smoothed.sink.timed[-1].seconds == pytest.approx(0.24)
    assert smoothed.sink.body.endswith(DONE)
    assert sum(mark or 0 for mark in smoothed.marks) == 30
