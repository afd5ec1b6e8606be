import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.errors import UpstreamError
from gateway.protocol.sse import FrameSplitter, data_of, event_of

STREAM = st.lists(
    st.sampled_from(
        [b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n", b"data: x", b": c", b"event: e", b"\xf0\x9f"]
    ),
    max_size=20,
).map(b"".join)


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    borders = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[a:b] for a, b in pairwise(borders)]


def frames_of(pieces: list[bytes]) -> tuple[list[bytes], int]:
    splitter = FrameSplitter(10_000)
    frames = [frame for piece in pieces for frame in splitter.feed(piece)]
    return frames, splitter.pending_bytes


def slow_frames_of(stream: bytes, *, most: int) -> tuple[list[bytes], bool]:
    """The frames up to the first that is longer than `most`, and whether there is such a one."""
    frames: list[bytes] = []
    begin = 0
    for end in range(len(stream) + 1):
        if re.search(rb"(\r?\n\r?\n|\r\r)\Z", stream[begin:end]):
            if end - begin > most:
                return frames, True
            frames.append(stream[begin:end])
            begin = end
    return frames, len(stream) - begin > most


def slow_data_of(frame: bytes) -> bytes:
    lines = [re.fullmatch(rb"data:? ?(.*)", line) for line in re.split(rb"\r\n|\r|\n", frame)]
    return b"\n".join(line.group(1) for line in lines if line is not None)


@given(STREAM, st.lists(st.integers(0, 200), max_size=8))
@example(b"a\r\n\r\nb\n\n", [])
@example(b"data: 1\r\n\r\n", [9])
def test_any_split_gives_the_same_frames(stream: bytes, cuts: list[int]) -> None:
    byte_by_byte = frames_of([stream[at : at + 1] for at in range(len(stream))])

    frames, pending_bytes = frames_of(cut(stream, cuts))

    assert (frames, pending_bytes) == byte_by_byte
    assert stream.startswith(b"".join(frames))
    assert len(b"".join(frames)) + pending_bytes == len(stream)


LIMIT = 24
NEAR_THE_LIMIT = st.lists(
    st.tuples(st.integers(LIMIT - 6, LIMIT + 2), st.sampled_from([b"\n\n", b"\r\n\r\n", b"\r\r"])),
    max_size=6,
).map(lambda frames: b"".join(b"x" * (size - len(end)) + end for size, end in frames))


@given(NEAR_THE_LIMIT, st.integers(0, 30), st.lists(st.integers(0, 200), max_size=8))
def test_frames_of_any_size_and_split_equal_those_of_a_slow_splitter(
    stream: bytes, rest: int, cuts: list[int]
) -> None:
    splitter, frames = FrameSplitter(LIMIT), []
    stream += b"x" * rest
    refused = False
    for piece in [*cut(stream, cuts), b""]:
        try:
            frames += splitter.feed(piece)
        except UpstreamError:
            refused = True
            break

    assert (frames, refused) == slow_frames_of(stream, most=LIMIT)


@given(STREAM)
def test_each_frame_ends_at_its_first_blank_line(stream: bytes) -> None:
    frames, _ = frames_of([stream])

    assert all(re.search(rb"\r?\n\r?\n\Z|\r\r\Z", frame) for frame in frames)
    assert not any(re.search(rb"(\r?\n\r?\n|\r\r)[^\r\n]", frame) for frame in frames)


@given(STREAM)
@example(b"data: a\rdata: b\n\n")
@example(b"data\n\n")
@example(b"data:x\ndata: y\r\ndata:  z\n\n")
def test_data_is_what_the_standard_says(frame: bytes) -> None:
    assert data_of(frame) == slow_data_of(frame)


@pytest.mark.parametrize(
    ("frame", "event"),
    [
        (b"event: error\ndata: {}\n\n", b"error"),
        (b"event: error\r\ndata: {}\r\n\r\n", b"error"),
        (b"event: error\rdata: {}\r\r", b"error"),
        (b"event:error\ndata: {}\n\n", b"error"),
        (b"id: 7\nevent: error\ndata: {}\n\n", b"error"),
        (b": hello\nevent: error\n\n", b"error"),
        (b"data: event: error\n\n", b""),
        (b"\n\n", b""),
    ],
    ids=str,
)
def test_the_event_is_found_on_whatever_line_it_stands(frame: bytes, event: bytes) -> None:
    assert event_of(frame) == event


@pytest.mark.parametrize("pieces", [[b"data: 12345678\n\n"], [b"data: 1234", b"5"]], ids=str)
def test_a_frame_over_the_limit_is_refused(pieces: list[bytes]) -> None:
    splitter = FrameSplitter(10)
    for piece in pieces[:-1]:
        splitter.feed(piece)

    with pytest.raises(UpstreamError):
        splitter.feed(pieces[-1])


def test_frames_before_one_over_the_limit_are_returned_first() -> None:
    splitter = FrameSplitter(10)

    assert splitter.feed(b"data: 1\n\n" + b"data: 12345678\n\n" + b"data: 2\n\n") == [
        b"data: 1\n\n"
    ]
    with pytest.raises(UpstreamError):
        splitter.feed(b"data: 3\n\n")
