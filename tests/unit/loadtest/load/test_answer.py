import json
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.load.answer import Ending, Recording, read_answer, text_of

MS = 1_000_000


def chunk(text: str = "", *, tokens: int | None = None, finish: str | None = None) -> bytes:
    page: dict[str, Any] = {"choices": [{"delta": {"content": text}, "finish_reason": finish}]}
    if tokens is not None:
        page["usage"] = {"completion_tokens": tokens}
    return f"data: {json.dumps(page)}\n\n".encode()


ERROR = b'data: {"error": {"message": "m", "code": "worker_lost"}}\n\n'
DONE = b"data: [DONE]\n\n"
LAST = chunk(finish="stop")


def recording(
    *packets: bytes,
    status: int = 200,
    stream: bool = True,
    end: Literal["whole", "broken", "left", "late"] = "whole",
    gap_ms: int = 10,
) -> Recording:
    stamped = [((number + 1) * gap_ms * MS, data) for number, data in enumerate(packets)]
    ended = (len(packets) + 1) * gap_ms * MS
    why = "ServerDisconnectedError: gone" if end == "broken" else ""
    return Recording(
        due_ns=0,
        sent_ns=0,
        status=status,
        is_stream=stream,
        packets=stamped,
        end=end,
        why=why,
        ended_ns=ended,
    )


@pytest.mark.parametrize(
    ("packets", "ending"),
    [
        ((chunk("a"), LAST, DONE), Ending.DONE),
        ((chunk("a"), b": ping\n\n", LAST, DONE), Ending.DONE),
        ((chunk("a"), ERROR), Ending.ERROR),
        ((chunk("a"), LAST), Ending.NONE),
        ((chunk("a"), DONE), Ending.NONE),
        ((), Ending.NONE),
        ((LAST, DONE, DONE), Ending.SEVERAL),
        ((LAST, DONE, chunk("b")), Ending.SEVERAL),
        ((ERROR, DONE), Ending.SEVERAL),
        ((ERROR, ERROR), Ending.SEVERAL),
        ((LAST, DONE, b"data: {half"), Ending.SEVERAL),
        ((chunk("a"), b"data: {half\n\n", LAST, DONE), Ending.SEVERAL),
    ],
    ids=[
        *("done", "comment", "error", "cut", "unfinished", "empty", "twice", "behind"),
        *("error and done", "two errors", "half behind", "not JSON between"),
    ],
)
def test_a_stream_has_the_ending_that_its_events_make(
    packets: tuple[bytes, ...], ending: Ending
) -> None:
    assert read_answer(recording(*packets)).ending is ending


@pytest.mark.parametrize(
    ("end", "ending"), [("broken", Ending.NONE), ("left", Ending.LEFT), ("late", Ending.HUNG)]
)
@pytest.mark.parametrize("stream", [True, False])
def test_a_body_that_did_not_come_whole_says_so(
    end: Literal["broken", "left", "late"], ending: Ending, stream: bool
) -> None:
    assert read_answer(recording(chunk("a"), end=end, stream=stream)).ending is ending


def test_a_stream_that_breaks_behind_its_ending_has_not_ended_well() -> None:
    assert read_answer(recording(LAST, DONE, end="broken")).ending is Ending.NONE


def test_the_cause_of_a_broken_answer_is_reported_without_its_message() -> None:
    assert read_answer(recording(chunk("a"), end="broken")).error == "ServerDisconnectedError"


@pytest.mark.parametrize(
    ("status", "body", "ending", "error"),
    [
        (200, b'{"choices": [{"finish_reason": "stop"}]}', Ending.DONE, None),
        (200, b'{"choices": [{"finish_reason": null}]}', Ending.NONE, "not a completion"),
        (200, b'{"choices": []}', Ending.NONE, "not a completion"),
        (200, b"[]", Ending.NONE, "not a completion"),
        (503, b'{"error": {"code": "overloaded"}}', Ending.ERROR, "overloaded"),
        (400, b'{"error": {"type": "conflict"}}', Ending.ERROR, "conflict"),
        (404, b'{"detail": "x"}', Ending.ERROR, "404"),
        (502, b"<html>", Ending.ERROR, "not JSON"),
    ],
)
def test_an_answer_in_one_piece_is_understood(
    status: int, body: bytes, ending: Ending, error: str | None
) -> None:
    answer = read_answer(recording(body, status=status, stream=False))

    assert (answer.ending, answer.error) == (ending, error)


def test_gaps_count_by_token_not_by_chunk() -> None:
    packets = chunk("a", tokens=1), chunk("bcd", tokens=4), chunk("e", tokens=5), LAST, DONE

    answer = read_answer(recording(*packets, gap_ms=30))

    assert list(answer.gaps_ms()) == [(10.0, 3), (30.0, 1)]


def test_tokens_that_come_with_the_first_have_no_gap() -> None:
    answer = read_answer(recording(chunk("ab", tokens=3), chunk("c", tokens=4)))

    assert list(answer.gaps_ms()) == [(0.0, 2), (10.0, 1)]
    assert answer.per_token_ms() == pytest.approx(10 / 3)


def test_text_without_a_new_token_is_no_gap() -> None:
    packets = chunk("a", tokens=1), chunk("b", tokens=1), chunk("c", tokens=2)

    answer = read_answer(recording(*packets))

    assert list(answer.gaps_ms()) == [(20.0, 0.5), (20.0, 0.5)]


def test_a_text_that_was_cut_shares_its_tokens_by_its_characters() -> None:
    """As smooth pacing does: the count comes with the last piece."""
    packets = chunk("a", tokens=1), chunk("bbb"), chunk("c", tokens=5)

    answer = read_answer(recording(*packets))

    assert list(answer.gaps_ms()) == [(pytest.approx(10 / 3), 3.0), (10.0, 1.0)]


def test_pieces_of_the_first_token_have_no_gap() -> None:
    answer = read_answer(recording(chunk("a"), chunk("b", tokens=1), chunk("c", tokens=2)))

    assert list(answer.gaps_ms()) == [(10.0, 1.0)]


def test_what_the_stream_did_not_count_at_its_end_is_in_the_usage() -> None:
    usage = b'data: {"choices": [], "usage": {"completion_tokens": 3}}\n\n'

    answer = read_answer(recording(chunk("a", tokens=1), chunk("bb"), LAST, usage, DONE))

    assert list(answer.gaps_ms()) == [(5.0, 2.0)]


def test_a_stream_that_does_not_count_has_no_gaps_but_a_mean() -> None:
    usage = b'data: {"choices": [], "usage": {"completion_tokens": 2}}\n\n'

    answer = read_answer(recording(chunk("a"), chunk("b"), LAST, usage, DONE))

    assert list(answer.gaps_ms()) == []
    assert answer.per_token_ms() == 10.0


def test_frames_that_are_cut_anywhere_are_read_the_same() -> None:
    wire = chunk("a", tokens=1) + b"data: x\r\n\r\n".replace(b"x", b'{"choices": []}') + LAST + DONE
    pieces = [wire[at : at + 1] for at in range(len(wire))]

    answer = read_answer(recording(*pieces))

    assert answer.ending is Ending.DONE
    assert len(answer.arrivals) == 1


def test_latency_counts_from_when_the_request_was_due() -> None:
    found = recording(chunk("a"), LAST, DONE)
    found.due_ns, found.sent_ns = -500 * MS, 0

    answer = read_answer(found)

    assert answer.first_text_ms() == 510.0
    assert answer.total_ms() == 540.0


def test_speculation_is_read_with_its_sources() -> None:
    figures = {
        "num_draft_tokens": 9,
        "num_accepted_draft_tokens": 6,
        "num_spec_steps": 3,
        "sources": {"suffix": {"drafted": 9, "accepted": 6}},
    }
    page = {"choices": [], "metrics": {"speculative_decoding": figures}}

    found = read_answer(recording(LAST, f"data: {json.dumps(page)}\n\n".encode(), DONE)).speculation

    assert found is not None
    assert (found.drafted, found.accepted, found.steps) == (9, 6, 3)
    assert found.by_source == {"suffix": (9, 6)}


@given(st.lists(st.binary(max_size=60), max_size=6), st.booleans(), st.sampled_from([0, 200, 500]))
def test_no_bytes_make_reading_fail(packets: list[bytes], stream: bool, status: int) -> None:
    read_answer(recording(*packets, stream=stream, status=status))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["choices", "delta", "usage", "metrics", "error", "content"]), inner
            )
        ),
    ),
    st.booleans(),
)
def test_no_json_makes_reading_fail(page: object, stream: bool) -> None:
    text = json.dumps(page).encode()

    read_answer(recording(b"data: " + text + b"\n\n" if stream else text, stream=stream))


def test_the_text_of_a_stream_has_its_tool_calls_and_no_reasoning() -> None:
    def piece(**delta: object) -> bytes:
        return f"data: {json.dumps({'choices': [{'delta': delta}]})}\n\n".encode()

    whole = recording(
        piece(reasoning="Hm."),
        piece(content="Wait"),
        piece(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f"}}]),
        piece(tool_calls=[{"index": 0, "function": {"arguments": "{}"}}, {"index": 1}]),
        DONE,
    )

    assert text_of(whole) == "Waitf{}"
