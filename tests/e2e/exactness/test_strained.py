"""Prompts read in pieces, and requests that lose their place to others and come back."""

from typing import Any

import pytest

from tests.e2e.exactness.conftest import STRAINED_TOKENS
from tests.e2e.exactness.prompts import make_long_prompt, make_prompts
from tests.e2e.exactness.worker import Worker

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]


def test_prompts_read_in_pieces_beside_running_requests(plain: Worker, strained: Worker) -> None:
    """A step takes 64 tokens, so each of these prompts needs several, and drafts are cut."""
    bodies = [
        {"prompt": make_long_prompt(seed=number, records=7 + number % 3)} for number in range(6)
    ]

    answers = strained.ask_all(bodies, concurrency=3)

    assert answers == plain.ask_all(bodies, concurrency=3)
    assert sum(answer.drafts.accepted for answer in answers) > 0


def test_preempted_requests_go_on_as_if_nothing_had_happened(
    plain: Worker, strained: Worker
) -> None:
    """Each request ends with some 330 tokens, and there is room for 544: no two of them can end."""
    bodies = [
        {"prompt": prompt, "max_tokens": 256, "ignore_eos": True}
        for prompt in make_prompts(6, seed=50)
    ]
    before = strained.metric("vllm:num_preemptions_total")

    answers = strained.ask_all(bodies)

    assert answers == plain.ask_all(bodies)
    assert sum(answer.drafts.accepted for answer in answers) > 0
    assert strained.metric("vllm:num_preemptions_total") - before >= 3
    strained.wait_idle()
    assert strained.held() == {"drafter": 0, "index": 0, "head": 0}


def test_a_model_length_reached_under_strain(plain: Worker, strained: Worker) -> None:
    ids = strained.tokenize(make_long_prompt(seed=51, records=40))
    bodies: list[dict[str, Any]] = [
        {"prompt": ids[: STRAINED_TOKENS - room], "max_tokens": room, "ignore_eos": True}
        for room in (3, 30)
    ]
    bodies += [{"prompt": prompt} for prompt in make_prompts(4, seed=51)]

    answers = strained.ask_all(bodies)

    assert answers == plain.ask_all(bodies)


def test_tokens_that_the_model_does_not_have_are_never_drafted(
    plain: Worker, strained: Worker
) -> None:
    """A prediction is the gateway's, but an id beyond the vocabulary would end the worker."""
    bodies = [{"prompt": prompt} for prompt in make_prompts(6, seed=52)]
    expected = plain.ask_all(bodies)
    predicted = [
        [token if place % 4 else 10**6 + place for place, token in enumerate(answer.token_ids, 1)]
        for answer in expected
    ]

    answers = strained.ask_all([
        {**body, "vllm_xargs": {"specgate_prediction": prediction}}
        for body, prediction in zip(bodies, predicted, strict=True)
    ])  # fmt: skip

    assert answers == expected
