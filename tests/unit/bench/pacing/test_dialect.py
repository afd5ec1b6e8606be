"""What the worker writes is what the client reads, however the bytes are cut into packets."""

import pytest

from bench.pacing.dialect import Arrival, StreamError, frames_of, read_answer
from bench.pacing.patterns import Chunk, Pattern

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
PATTERN = Pattern("a", "k", [Chunk(0, "One", 1), Chunk(10, ' "two"\n\n ', 3), Chunk(20, "👩‍🔬", 2)])


def wire(frames: list[bytes]) -> list[tuple[int, bytes]]:
    return [(number, frame) for number, frame in enumerate(frames)]


def answer() -> list[bytes]:
    frames, end = frames_of(PATTERN, model="m", serial="1")
    return [HEAD, *frames, end]


def sse(text: str) -> bytes:
    return b"%x\r\n%b\r\n" % (len(text.encode()), text.encode())


def test_text_and_counts_come_with_their_packets() -> None:
    assert read_answer(wire(answer())) == [
        Arrival(1, "One", 1),
        Arrival(2, ' "two"\n\n ', 4),
        Arrival(3, "👩‍🔬", 6),
    ]


@pytest.mark.parametrize("size", [1, 2, 7, 50, 10_000])
def test_packets_may_be_cut_anywhere(size: int) -> None:
    whole = b"".join(answer())
    packets = [(at, whole[at : at + size]) for at in range(0, len(whole), size)]

    arrivals = read_answer(packets)

    assert "".join(arrival.text for arrival in arrivals) == PATTERN.text
    assert [arrival.at_ns for arrival in arrivals] == sorted({each.at_ns for each in arrivals})


def test_a_frame_counts_when_its_last_byte_is_there() -> None:
    head, first, *rest = answer()

    arrivals = read_answer([(1, head + first[:-1]), (2, first[-1:]), (3, b"".join(rest))])

    assert arrivals[0] == Arrival(2, "One", 1)


def test_padding_is_no_text() -> None:
    head, *frames = answer()
    padded = [head, sse(": xxxxxx\n\n"), *frames]

    assert [arrival.at_ns for arrival in read_answer(wire(padded))] == [2, 3, 4]


@pytest.mark.parametrize(
    ("packets", "said"),
    [
        (answer()[:-1], "without"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"], "no stream"),
        ([HEAD, sse('data: {"error": {"message": "lost"}}\n\n')], "lost"),
    ],
    ids=["cut-short", "whole-answer", "error-event"],
)
def test_a_bad_answer_is_an_error(packets: list[bytes], said: str) -> None:
    with pytest.raises(StreamError, match=said):
        read_answer(wire(packets))
