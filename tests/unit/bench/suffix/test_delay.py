"""Recorded answers decoded with and without a step of delay."""

import numpy as np

from bench.suffix.datasets import Request
from bench.suffix.delay import Counts, decode

TEXT = list(range(100, 140))


def request(answer: list[int]) -> Request:
    return Request(np.array([1, 2, *TEXT], np.int32), np.array(answer, np.int32), is_last=True)


def test_a_copied_answer_costs_a_plain_step_at_its_beginning() -> None:
    waiting = decode([request([1, 2, *TEXT])], ahead=False)
    ahead = decode([request([1, 2, *TEXT])], ahead=True)

    assert waiting.accepted > ahead.accepted > 0
    assert waiting.answer_tokens == ahead.answer_tokens == 42


def test_every_token_is_either_accepted_or_a_steps_own() -> None:
    answers = [request([1, 2, *TEXT[:20], 7, *TEXT[5:30], 8, 9]) for _ in range(3)]

    for ahead in (False, True):
        found = decode(answers, ahead=ahead)
        assert found.accepted + found.steps == found.answer_tokens
        assert found.drafted >= found.accepted


def test_what_is_in_flight_after_a_surprise_is_void() -> None:
    """Each second token is one that no text has: nothing drafted ahead can be right."""
    answer = [token for at in range(20) for token in (100 + at, 1000 + at)]

    assert decode([request(answer)], ahead=True).accepted == 0


def test_counts_add_up() -> None:
    assert Counts(1, 2, 3, 4) + Counts(1, 1, 1, 1) == Counts(2, 3, 4, 5)
    assert Counts().as_json() == {"accepted": 0.0, "drafted": 0.0, "tokens_a_step": 1.0}
