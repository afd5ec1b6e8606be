"""Hostile answers are the same for the same seed, and the good ones among them are good."""

from itertools import islice

import pytest

from bench.fuzz.answers import (
    DIALECTS,
    MAX_FRAME_BYTES,
    at_every_bound,
    at_every_byte,
    frames_of,
    random_answers,
    stream_answer,
    whole_answer,
)
from bench.fuzz.evil_worker import TAG
from bench.fuzz.http import ReplyReader
from bench.fuzz.workers import flaw_of_stream


@pytest.mark.parametrize("path", DIALECTS)
def test_valid_answers_are_valid(path: str) -> None:
    whole, stream = ReplyReader(), ReplyReader()

    whole.feed(whole_answer(path, "a0000000"))
    stream.feed(stream_answer(frames_of(path, "a0000000")))

    assert (whole.whole, stream.whole) == (1, 1)
    assert flaw_of_stream(bytes(stream.replies[0].body), path, is_good=True) is None


def test_answers_are_cut_and_split_at_every_byte() -> None:
    cases = list(islice(at_every_byte(), 400))

    for number, case in enumerate(cases):
        sent = b"".join(step for step in case.steps if isinstance(step, bytes))
        assert TAG.fullmatch(case.tag.encode())
        assert (len(sent) == number // 2) != case.is_good


def test_frames_have_every_size_around_every_bound() -> None:
    sizes = set()
    for case in at_every_bound():
        if case.tag.split("-")[2].startswith("1"):  # a write for each frame
            sizes.add(max(len(step) for step in case.steps if isinstance(step, bytes)))

    assert {2**16 + 9, 2**17 + 9, 2**17 + 10, MAX_FRAME_BYTES + 10} <= sizes
    assert max(sizes) > MAX_FRAME_BYTES + 10


def test_a_seed_and_a_number_make_a_case() -> None:
    every = list(random_answers(seed=7, first=0, count=50))

    assert list(random_answers(seed=7, first=20, count=1)) == [every[20]]
    assert list(random_answers(seed=8, first=0, count=50)) != every
