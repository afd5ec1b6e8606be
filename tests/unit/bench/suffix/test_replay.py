import math
from collections.abc import Sequence

import numpy as np
import pytest

from bench.suffix.datasets import Request, Tokens
from bench.suffix.replay import accepted_of, log_loss, replay


class Scripted:
    """Drafts three tokens each time: the two that are right, then one that is not."""

    def __init__(self) -> None:
        self.told: list[list[int]] = []
        self.ended: list[str] = []

    def start(self, name: str, prompt: Tokens) -> None:
        pass

    def append(self, name: str, tokens: list[int]) -> None:
        self.told.append(tokens)

    def propose(self, name: str, text: Tokens, end: int) -> tuple[object, list[int]]:
        return None, [*text[end : end + 2].tolist(), -5]

    def finish(self, name: str) -> None:
        self.ended.append(name)

    def claims(self, draft: object) -> tuple[Sequence[float], Sequence[float]]:
        return [0.9, 0.8, 0.1], [0.5, 0.5, 0.5]


def test_each_step_appends_the_accepted_tokens_and_the_next_one() -> None:
    subject = Scripted()
    request = Request(np.array([1, 2], np.int32), np.arange(10, 18, dtype=np.int32), is_last=True)

    figures, propose_ns = replay(subject, [request, request])

    assert subject.told[:4] == [[10], [11, 12, 13], [14, 15, 16], [17]]
    assert subject.ended == ["r0", "r1"]
    assert (figures.steps, figures.accepted, figures.drafted) == (6, 10, 16)
    assert (figures.answer_tokens, figures.prompt_tokens) == (16, 4)
    assert len(propose_ns) == 6
    assert figures.propose_sum_ns == sum(propose_ns)
    assert figures.stated_loss < figures.raw_loss


def test_an_answer_of_one_token_needs_no_draft() -> None:
    request = Request(np.array([1], np.int32), np.array([9], np.int32), is_last=True)

    figures, propose_ns = replay(Scripted(), [request])

    assert figures.steps == 0
    assert propose_ns == []


@pytest.mark.parametrize(
    ("draft", "truth", "accepted"), [([1, 2, 3], [1, 2, 4], 2), ([], [1], 0), ([1, 2], [1], 1)]
)
def test_accepted_is_the_common_beginning(
    draft: list[int], truth: list[int], accepted: int
) -> None:
    assert accepted_of(draft, truth) == accepted


def test_log_loss_counts_a_token_behind_a_wrong_one_as_wrong() -> None:
    assert log_loss([0.5, 0.25], 1) == pytest.approx(-math.log(0.5) - math.log(0.75))


def test_log_loss_of_a_certain_claim_is_bounded() -> None:
    assert log_loss([1.0], 0) == pytest.approx(-math.log(1e-3))
