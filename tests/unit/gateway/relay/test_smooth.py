import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import WorkerLostError
from gateway.protocol import TextChunk, TextChunks
from gateway.protocol.sse import data_of
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
from tests.unit.gateway.requests import MESSAGES, RESPONSES

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


@given(SCRIPT, st.lists(st.booleans(), max_size=30))
@settings(max_examples=150)
def test_the_same_text_comes_in_order_and_ends_once(
    script: list[tuple[float, int]], full: list[bool]
) -> None:
    steps = [*scripted(script), DONE]

    smoothed = Smoothed(full=full).run(*steps)

    assert smoothed.text == words_of(steps)
    assert smoothed.sink.ended
    assert smoothed.sink.body.count(DONE) == 1
    assert smoothed.sink.body.endswith(DONE)
    assert sum(mark or 0 for mark in smoothed.marks) == sum(size for _, size in script)


@given(SCRIPT)
@settings(max_examples=150)
def test_no_token_waits_beyond_its_bound(script: list[tuple[float, int]]) -> None:
    smoothed = Smoothed().run(*scripted(script), DONE)

    assert max(smoothed.added, default=0.0) <= BOUND_SECONDS
    assert len(smoothed.added) == sum(size for _, size in script)


@given(SCRIPT, st.floats(0.0, 2.0), st.lists(st.booleans(), max_size=10))
@settings(max_examples=150)
def test_a_stream_that_is_cut_short_anywhere_gives_what_came_then_one_error(
    script: list[tuple[float, int]], cancel_after: float, full: list[bool]
) -> None:
    steps = [*scripted(script), DONE]

    smoothed = Smoothed(full=full).run(*steps, cancel_after=cancel_after)

    sent = [step for step in steps[: smoothed.source.taken] if isinstance(step, bytes)]
    whole = words_of([*sent, DONE]) if DONE not in sent else words_of(steps)
    assert smoothed.text == whole
    assert smoothed.sink.ended
    assert smoothed.sink.body.count(b'"error"') == (smoothed.error is not None)


def test_an_even_stream_is_not_touched_and_wakes_nobody() -> None:
    frames = [chunk(" word", number) for number in range(2, 51)]
    steps: list[Step] = [part for frame in frames for part in (0.02, frame)]

    smoothed = Smoothed().run(chunk("a", 1), *steps, DONE)

    assert smoothed.source.tapped == len(frames)
    assert set(smoothed.added) == {0.0}
    assert smoothed.depths == []


def test_a_stream_that_becomes_even_is_not_touched_any_more() -> None:
    steps = bursts(4, 1, 6)
    for running in range(13, 213):
        steps += [0.02, chunk(" word", running)]

    smoothed = Smoothed().run(*steps, DONE)

    assert smoothed.source.tapped > 200
    assert max(smoothed.added[:60]) > 0.02
    assert len(smoothed.depths) < 150  # pieces, in the two seconds after the bursts
    assert smoothed.sink.writes[-50:-1] == [
        chunk(" word", running).split(b',"usage"')[0] + b"}\n\n" for running in range(164, 213)
    ]


def test_the_first_text_leaves_as_it_comes() -> None:
    smoothed = Smoothed().run(0.5, chunk("one two three", 3), 1.0, DONE)

    assert (smoothed.sink.timed[0].seconds, smoothed.text) == (0.5, "one two three")


def test_a_burst_is_played_out() -> None:
    smoothed = Smoothed().run(*bursts(*[4] * 20), 0.08, DONE)

    times = [write.seconds for write in smoothed.sink.timed]
    gaps = [b - a for a, b in pairwise(times)][10:-2]
    assert len(times) > 40
    assert max(gaps) <= 0.06


def test_in_a_crowd_pieces_are_larger_and_not_later() -> None:
    steps = [*bursts(*[3, 1, 4] * 20, gap=0.05), DONE]

    alone, crowded = Smoothed().run(*steps), Smoothed().run(*steps, crowd=1000)

    assert len(crowded.depths) < 0.7 * len(alone.depths)
    assert max(crowded.added) <= BOUND_SECONDS
    assert crowded.text == alone.text


def test_what_is_left_at_the_finish_leaves_with_it() -> None:
    last = chunk(" end", 14, finish_reason="stop")

    smoothed = Smoothed().run(*bursts(12), last, 0.5, DONE)

    usual_end = [write for write in smoothed.sink.timed if b'"stop"' in write.data]
    assert smoothed.text.endswith(" end")
    assert usual_end[0].seconds >= 0.08


@pytest.mark.parametrize(
    "frame",
    [
        chunk(" x", 14, logprobs={"content": []}),
        chunk(" x", 14, token_ids=[1]),
        chunk("", 14, delta={"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}),
        chunk("", 14, delta={"reasoning": "hm"}),
        chunk("", 14, delta={"role": "assistant", "content": ""}),
        b": note\n\n",
    ],
    ids=["logprobs", "token-ids", "tool-call", "reasoning", "role", "comment"],
)
def test_whatever_is_not_more_of_the_same_text_flushes_it_and_stays_whole(frame: bytes) -> None:
    steps = bursts(12)

    smoothed = Smoothed().run(*steps, frame, 1.0, DONE)

    at = [write.seconds for write in smoothed.sink.timed if write.data != DONE]
    assert at[-1] == pytest.approx(0.08)
    assert smoothed.text.startswith(words_of([*steps, DONE]))
    wanted = frame.split(b',"usage"')[0]
    assert wanted in smoothed.sink.body


def test_a_lost_worker_flushes_and_then_is_told() -> None:
    steps = bursts(12)

    smoothed = Smoothed().run(*steps, WorkerLostError("gone", sent=True))

    assert smoothed.text == words_of([*steps, DONE])
    assert "error" in smoothed.events[-1]
    assert smoothed.sink.timed[-1].seconds == pytest.approx(0.08)


def test_an_error_of_the_worker_flushes_and_then_is_told() -> None:
    steps = bursts(12)

    smoothed = Smoothed().run(*steps, b'data: {"error":{"message":"boom"}}\n\n', DONE)

    assert smoothed.text == words_of([*steps, DONE])
    assert "error" in smoothed.events[-1]


def test_a_character_that_comes_in_two_chunks_leaves_in_one_piece() -> None:
    first, second = " space 👨\u200d", "🚀 is fun"
    smoothed = Smoothed().run(
        *bursts(4), 0.02, chunk(first, 9), 0.02, chunk(second, 12), 0.4, chunk("!", 13), 0.2, DONE
    )

    joint = [write for write in smoothed.sink.timed if "👨".encode() in write.data]
    assert first + second in smoothed.text
    assert ["🚀".encode() in write.data for write in joint] == [True]


def test_a_client_that_asked_for_running_usage_never_sees_a_wrong_one() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    smoothed = Smoothed(stream_options=options).run(*bursts(4, 6, 2, 8), 0.3, DONE)

    seen = ""
    for event in smoothed.events:
        seen += event["choices"][0]["delta"]["content"]
        if "usage" in event:
            so_far = [*bursts(4, 6, 2, 8)]
            whole = {
                json.loads(data_of(step))["usage"]["completion_tokens"]: index
                for index, step in enumerate(so_far)
                if isinstance(step, bytes)
            }
            index = whole[event["usage"]["completion_tokens"]]
            assert seen == words_of([*so_far[: index + 1], DONE])
    assert len(smoothed.events) > 5


def test_text_of_one_read_is_played_out_and_an_end_in_it_ends() -> None:
    steps = bursts(4)
    read = chunk(" one two three", 9) + chunk(" four five six", 12)
    smoothed = Smoothed().run(*steps, 0.08, read, 0.08, read + chunk(" end", 30) + DONE)

    assert smoothed.text == words_of([*steps, read, read, chunk(" end", 30), DONE])
    assert len({write.seconds for write in smoothed.sink.timed}) > 6
    assert smoothed.sink.timed[-1].seconds == pytest.approx(0.24)
    assert smoothed.sink.body.endswith(DONE)
    assert sum(mark or 0 for mark in smoothed.marks) == 30


def test_an_error_event_of_responses_is_numbered_on() -> None:
    def delta(number: int, text: str) -> bytes:
        kind = "response.output_text.delta"
        told = {"type": kind, "sequence_number": number, "delta": text}
        return f"event: {kind}\ndata: {json.dumps(told)}\n\n".encode()

    steps = [step for number in range(5) for step in (delta(number, " a b c d e f"), 0.08)]
    smoothed = Smoothed(RESPONSES).run(*steps, WorkerLostError("gone", sent=True))

    numbers = [told["sequence_number"] for told in smoothed.events]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > 6


def test_a_full_socket_is_tried_again() -> None:
    smoothed = Smoothed(full=[False, True, True]).run(*bursts(4, 4), 2.0, DONE)

    assert smoothed.text == words_of([*bursts(4, 4), DONE])
    assert smoothed.sink.timed[-2].seconds < 0.5


def test_a_full_socket_has_the_next_text_wait_for_it() -> None:
    smoothed = Smoothed(full=[False, *[True] * 100]).run(*bursts(4, 4, 4), DONE)

    assert smoothed.text == words_of([*bursts(4, 4, 4), DONE])


def test_a_flood_is_not_kept() -> None:
    flood: list[Step] = [chunk("x" * 400, 20 * number) for number in range(1, 200)]

    smoothed = Smoothed().run(chunk("a", 1), 0.02, chunk("b", 9), 0.02, *flood, DONE)

    assert max(smoothed.depths) <= 300
    assert len(smoothed.text) == 2 + 199 * 400


def test_events_of_responses_are_numbered_one_by_one() -> None:
    def event(kind: str, number: int, **more: Any) -> bytes:
        told = {"type": kind, "sequence_number": number, **more}
        return f"event: {kind}\ndata: {json.dumps(told)}\n\n".encode()

    place = {"item_id": "m", "output_index": 0, "content_index": 0, "logprobs": []}
    steps: list[Step] = [event("response.created", 0)]
    for number in range(1, 9):
        words = "".join(f" word{i}" for i in range(number % 3 * 4 + 1))
        steps += [0.06, event("response.output_text.delta", number, delta=words, **place)]
    steps += [event("response.output_text.done", 9), event("response.completed", 10)]

    smoothed = Smoothed(RESPONSES).run(*steps)

    numbers = [told["sequence_number"] for told in smoothed.events]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > 15
    deltas = (told["delta"] for told in smoothed.events if "delta" in told)
    assert "".join(deltas).count("word") == 5 + 9 + 1 + 5 + 9 + 1 + 5 + 9
    assert smoothed.sink.ended


def test_messages_are_played_out_too() -> None:
    def delta(text: str) -> bytes:
        told = {"type": "content_block_delta", "index": 0}
        told |= {"delta": {"type": "text_delta", "text": text}}
        return f"event: content_block_delta\ndata: {json.dumps(told)}\n\n".encode()

    steps: list[Step] = [delta("Once")]
    for number in range(10):
        steps += [0.08, delta(" upon a time" if number % 2 else " there")]
    end = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

    smoothed = Smoothed(MESSAGES).run(*steps, 0.3, end)

    texts = [told["delta"]["text"] for told in smoothed.events if "delta" in told]
    assert "".join(texts) == "Once" + " there upon a time" * 5
    assert len(texts) > 11


def test_a_frame_is_taken_apart_once_though_it_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    read, seen = TextChunks.read, []

    def counted(self: TextChunks, frame: bytes) -> TextChunk | None:
        seen.append(frame)
        return read(self, frame)

    monkeypatch.setattr(TextChunks, "read", counted)
    probabilities = {"logprobs": {"content": [{"token": "x", "logprob": -1.0}]}}
    whole: list[Step] = []
    for running in range(14, 20):
        whole += [0.02, chunk(" x", running, **probabilities)]

    smoothed = Smoothed().run(*bursts(6, 6), *whole, DONE)

    assert smoothed.text.endswith(" x" * 6)
    tried = [frame for frame in seen if b'logprob"' in frame]
    # The first one finds text that is held, is refused, and comes again by the longer way.
    assert len(tried) == 6 + 1
