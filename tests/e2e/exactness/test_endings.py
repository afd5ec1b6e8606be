"""Requests that end inside an accepted draft, or at the model's length, and those beside them."""

from typing import Any

import pytest

from tests.e2e.exactness.conftest import MODEL_TOKENS
from tests.e2e.exactness.prompts import make_long_prompt, make_prompts, make_prose
from tests.e2e.exactness.worker import Worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_every_length_ends_where_it_should(plain: Worker, speculating: Worker) -> None:
    prompt = "red blue green white " * 6
    bodies = [{"prompt": prompt, "max_tokens": tokens} for tokens in range(1, 17)]

    answers = speculating.ask_all(bodies)

    assert answers == plain.ask_all(bodies)
    assert [answer.completion_tokens for answer in answers] == list(range(1, 17))
    assert sum(answer.drafts.accepted for answer in answers) > 16


def test_drafts_never_go_beyond_max_tokens(speculating: Worker) -> None:
    prompt = "one two three four five six " * 8
    bodies = [{"prompt": prompt, "max_tokens": tokens} for tokens in range(1, 9)]

    answers = speculating.ask_all(bodies)

    assert sum(answer.drafts.drafted for answer in answers) > 0
    for body, answer in zip(bodies, answers, strict=True):
        tokens = body["max_tokens"]
        assert isinstance(tokens, int)
        # The prompt brings the first token, and a step one more than it drafts.
        assert all(drafted <= tokens - 2 for drafted in answer.drafts.drafted_by_step)


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "dropped"])
def test_stop_inside_an_accepted_draft_drops_what_follows(
    kept: bool, plain: Worker, speculating: Worker
) -> None:
    (prompt,) = make_prose(1, seed=21)
    (choice,) = speculating.ask({"prompt": prompt, "max_tokens": 32}).choices  # now it is known
    bodies: list[dict[str, Any]] = [
        {
            "prompt": prompt,
            "stop": [choice.text[at : at + 4], "nowhere"],
            "include_stop_str_in_output": kept,
        }
        for at in range(24, 84, 10)
    ]

    answers = speculating.ask_all(bodies)

    assert answers == plain.ask_all(bodies)
    assert all(answer.choices[0].finish_reason == "stop" for answer in answers)
    assert sum(answer.drafts.accepted for answer in answers) > 0


def test_stop_token_inside_an_accepted_draft_ends_the_answer(
    plain: Worker, speculating: Worker
) -> None:
    prompt = "alpha beta gamma delta epsilon " * 8
    cycle = plain.ask({"prompt": prompt}).token_ids[:10]
    bodies = [{"prompt": prompt, "stop_token_ids": [token]} for token in dict.fromkeys(cycle)]

    answers = speculating.ask_all(bodies)

    assert answers == plain.ask_all(bodies)
    assert all(answer.choices[0].finish_reason == "stop" for answer in answers)


def test_requests_near_the_models_length_end_there_and_leave_others_their_drafts(
    plain: Worker, speculating: Worker
) -> None:
    ids = speculating.tokenize(make_long_prompt(seed=20, records=80))
    near = [
        {"prompt": ids[: MODEL_TOKENS - room], "max_tokens": room, "ignore_eos": True}
        for room in (1, 9)
    ]
    others = [{"prompt": prompt, "max_tokens": 40} for prompt in make_prompts(4, seed=20)]
    bodies = [*others, *near]
    alone = speculating.ask_all(apart(others, "alone"))

    answers = speculating.ask_all(apart(bodies, "near"))

    assert answers == plain.ask_all(bodies)
    assert [answer.completion_tokens for answer in answers[4:]] == [1, 9]
    # vLLM 0.32 would verify drafts of 32 zeros for all while one request is near its end.
    assert [answer.drafts for answer in answers[:4]] == [answer.drafts for answer in alone]
    assert sum(answer.drafts.accepted for answer in alone) > 0


def apart(bodies: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Have each request draft by itself: not from another's answer, nor with the head.

    What is thought of the head's tokens is learnt from all requests: asked again, others are taken.
    """
    return [
        {
            **body,
            "vllm_xargs": {"specgate_tenant": f"{name}-{number}", "specgate_mode": "suffix"},
        }
        for number, body in enumerate(bodies)
    ]
