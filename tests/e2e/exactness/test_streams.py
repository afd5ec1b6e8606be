"""A stream's pieces, however they are cut, are the whole answer's tokens."""

from typing import Any

import pytest

from tests.e2e.exactness.answers import Answer
from tests.e2e.exactness.prompts import make_prompts
from tests.e2e.exactness.worker import Worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PROMPTS = make_prompts(5, seed=30)
WAYS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "with usage": {"stream_options": {"include_usage": True}},
    "with continuous usage": {
        "stream_options": {"include_usage": True, "continuous_usage_stats": True}
    },
    "every five tokens": {"stream_interval": 5},
    "every five tokens, with usage": {
        "stream_interval": 5,
        "stream_options": {"include_usage": True},
    },
    "up to a stop": {"stop": ["coins", "door", "\n\n"]},
}


@pytest.fixture(scope="module")
def whole(plain: Worker) -> dict[str, list[Answer]]:
    """The answers as a whole, with plain decoding; the ways but one ask for the same."""
    free = plain.ask_all([{"prompt": prompt} for prompt in PROMPTS])
    stop = WAYS["up to a stop"]
    stopped = plain.ask_all([{"prompt": prompt, **stop} for prompt in PROMPTS])
    return {way: stopped if WAYS[way] is stop else free for way in WAYS}


@pytest.mark.parametrize("way", WAYS)
def test_pieces_make_the_same_answer(
    way: str, whole: dict[str, list[Answer]], speculating: Worker
) -> None:
    bodies = [{"prompt": prompt, **WAYS[way]} for prompt in PROMPTS]
    expected = whole[way]

    streams = speculating.stream_all(bodies)

    assert [stream.choice for stream in streams] == [answer.choices[0] for answer in expected]
    for stream, answer in zip(streams, expected, strict=True):
        totals = [usage["completion_tokens"] for usage in stream.usages]
        assert totals[-1:] == ([answer.completion_tokens] if "stream_options" in WAYS[way] else [])
        assert totals == sorted(totals)


def test_chat_stream_is_the_same(plain: Worker, speculating: Worker) -> None:
    bodies = [{"messages": [{"role": "user", "content": prompt}]} for prompt in PROMPTS]

    streams = speculating.stream_all(bodies)

    assert streams == plain.stream_all(bodies)


def test_an_accepted_draft_comes_in_one_piece(speculating: Worker) -> None:
    body = {"prompt": "one two three four five six " * 8, "max_tokens": 48}

    stream = speculating.stream(body)

    assert len(stream.choice.token_ids) == 48
    assert stream.chunks < 40
