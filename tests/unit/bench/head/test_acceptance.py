from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from bench.head.acceptance import Acceptance, acceptance_of

HEAD = 2 << 16


def answer(tokens: int, *steps: tuple[int, int], ended: str = "stop") -> Mapping[str, Any]:
    return {
        "usage": {"completion_tokens": tokens, "prompt_tokens": 9},
        "choices": [{"finish_reason": ended}],
        "metrics": {
            "speculative_decoding": {
                "per_step_drafted": [HEAD | drafted for drafted, _ in steps],
                "per_step_accepted": [accepted for _, accepted in steps],
            }
        },
    }


def counted(found: Acceptance) -> tuple[int, int, Sequence[int]]:
    return found.steps, found.verified, found.reached


def test_every_position_counts_the_steps_that_reached_it() -> None:
    found = acceptance_of(answer(12, (3, 3), (3, 1), (3, 0), (3, 0), (3, 2)))

    # One token before them, then 4, 2, 1, 1 and 3: before the last step only 3 tokens are left.
    assert counted(found) == (4, 12, (2, 1, 1))
    assert found.ratio == pytest.approx(4 / 12)
    assert found.length == pytest.approx(8 / 4)
    assert found.by_position == pytest.approx([2 / 4, 1 / 4, 1 / 4])
    assert found.verified_ratio == 1.0


@pytest.mark.parametrize(
    ("tokens", "steps"), [(5, 1), (4, 0)], ids=["just within", "one token short"]
)
def test_a_draft_counts_if_it_and_its_bonus_are_within_the_answer(tokens: int, steps: int) -> None:
    # The fourth token of the step would be the fifth of the answer.
    assert acceptance_of(answer(tokens, (3, 3))).steps == steps


def test_a_draft_that_the_end_cut_short_does_not_count() -> None:
    found = acceptance_of(answer(8, (3, 3), (2, 1), (0, 0), ended="length"))

    assert counted(found) == (1, 3, (1, 1, 1))


def test_what_the_policy_cut_counts_as_refused() -> None:
    found = acceptance_of(answer(9, (1, 1), (2, 0), (3, 2), (3, 1)))

    assert counted(found) == (3, 6, (2, 1, 0))
    assert found.ratio == pytest.approx(3 / 9)
    assert found.verified_ratio == pytest.approx(6 / 9)


def test_a_step_without_a_draft_counts_as_three_refused() -> None:
    # Ten tokens: the prompt's, four of the step with a draft, five of steps without.
    found = acceptance_of(answer(10, (3, 3)))

    assert counted(found) == (6, 3, (1, 1, 1))


def test_the_last_token_of_an_answer_that_was_cut_could_have_no_draft() -> None:
    assert acceptance_of(answer(6, (3, 3), ended="length")).steps == 1
    assert acceptance_of(answer(6, (3, 3), ended="stop")).steps == 2


def test_an_answer_without_drafts_has_only_refused_ones() -> None:
    found = acceptance_of({**answer(4), "metrics": None})

    assert counted(found) == (3, 0, (0, 0, 0))
    assert found.ratio == 0.0


def test_answers_add_up() -> None:
    total = acceptance_of(answer(9, (3, 3), (3, 3))) + acceptance_of(answer(9, (3, 0), (3, 0)))

    assert (total.requests, total.tokens) == (2, 18)
    assert total.reached == (2, 2, 2)


def test_without_a_step_there_is_no_figure() -> None:
    nothing = Acceptance()

    assert (nothing.ratio, nothing.length, nothing.by_position) == (None, None, [])
    assert nothing.verified_ratio is None
