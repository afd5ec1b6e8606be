"""What was recorded is what the worker sent, token by token."""

from bench.pacing.dialect import Arrival
from bench.pacing.patterns import Chunk
from bench.pacing.record import chunks_of


def test_chunks_hold_the_tokens_since_the_last_one() -> None:
    arrivals = [Arrival(130, "One", 1), Arrival(150, " two three", 4), Arrival(180, ".", 5)]

    assert chunks_of(arrivals, asked_ns=100) == [
        Chunk(30, "One", 1),
        Chunk(50, " two three", 3),
        Chunk(80, ".", 1),
    ]


def test_text_without_a_new_token_counts_as_one() -> None:
    arrivals = [Arrival(130, "One", 2), Arrival(150, " held", 2), Arrival(180, ".", 3)]

    assert [chunk.tokens for chunk in chunks_of(arrivals, asked_ns=0)] == [2, 1, 1]


def test_without_counts_a_chunk_is_a_token() -> None:
    arrivals = [Arrival(130, "One", None), Arrival(150, " two", None)]

    assert [chunk.tokens for chunk in chunks_of(arrivals, asked_ns=0)] == [1, 1]
