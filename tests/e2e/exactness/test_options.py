"""Sampling options of a request: each option alone, and all of them in one batch.

A draft token is verified under the conditions under which it would be sampled: penalties count the
draft tokens before it, `min_tokens` its position, a grammar the state that precedes it. Random
sampling is compared where its outcome is certain: with one candidate left (`top_k` 1, a tiny
`top_p`) vLLM samples at random from one token.
"""

from itertools import chain, islice
from typing import Any

import pytest

from tests.e2e.exactness.answers import Answer
from tests.e2e.exactness.prompts import make_prompts
from tests.e2e.exactness.worker import Worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

NEWLINE, FULL_STOP, COMMA, A, BLUE = 198, 30, 28, 253, 4461  # ids of SmolLM2

OPTIONS: dict[str, dict[str, Any]] = {
    "presence_penalty": {"presence_penalty": 0.8},
    "frequency_penalty": {"frequency_penalty": 0.6},
    "repetition_penalty": {"repetition_penalty": 1.15},
    "all penalties": {
        "presence_penalty": 0.3, "frequency_penalty": -0.4, "repetition_penalty": 1.05,
    },
    "bad_words": {"bad_words": ["blue", "total", "door", "coins"]},
    "allowed_token_ids": {"allowed_token_ids": list(range(1000))},
    "stop": {"stop": ["coins\n", "door", " total", "red b"]},
    "stop, kept": {"stop": ["or c", "return"], "include_stop_str_in_output": True},
    "stop_token_ids": {"stop_token_ids": [NEWLINE, BLUE]},
    "min_tokens": {"min_tokens": 20, "stop_token_ids": [NEWLINE, FULL_STOP]},
    "min_tokens before a stop": {"min_tokens": 9, "stop": ["\n", "e "]},
    "ignore_eos": {"ignore_eos": True, "max_tokens": 40},
    "seed": {"seed": 11},
    "top_k 1": {"temperature": 1.0, "top_k": 1},
    "top_p of one": {"temperature": 1.3, "top_p": 1e-9},
    "penalties of random samples": {"temperature": 0.7, "top_k": 1, "frequency_penalty": 0.5},
    "logprobs": {"logprobs": 3},
    "repetition_detection": {
        "max_tokens": 48,
        "repetition_detection": {"max_pattern_size": 8, "min_pattern_size": 1, "min_count": 3},
    },
}  # fmt: skip
UNDRAFTED: dict[str, dict[str, Any]] = {
    "logit_bias": {"logit_bias": {str(NEWLINE): -6.0, str(COMMA): 3.0, str(A): -100.0}},
    "min_p": {"temperature": 1.0, "min_p": 1.0},
    "seeded sample": {"temperature": 0.9, "seed": 11},
    "seeded sample, n": {"temperature": 0.9, "seed": 11, "n": 2},
}
"""What vLLM cannot verify drafts for, or not with the same random numbers: those decode plainly."""

SEVERAL: dict[str, dict[str, Any]] = {"n": {"n": 3, "temperature": 1.0, "top_k": 1}}
"""vLLM says nothing of the drafts of answers with several choices."""

SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "colour": {"enum": ["red", "blue", "green"]},
            "coins": {"type": "integer"},
        },
        "required": ["name", "colour", "coins"],
        "additionalProperties": False,
    },
    "minItems": 2,
    "maxItems": 4,
}


def completions(fields: dict[str, Any], *, seed: int) -> list[dict[str, Any]]:
    return [{"prompt": prompt, **fields} for prompt in make_prompts(2, seed=seed)]


def chats(fields: dict[str, Any], *, seed: int, start: str) -> list[dict[str, Any]]:
    return [
        {"messages": [{"role": "user", "content": start + prompt}], **fields}
        for prompt in make_prompts(3, seed=seed)
    ]


BODIES: dict[str, list[dict[str, Any]]] = {
    name: completions(fields, seed=100 + number)
    for number, (name, fields) in enumerate({**OPTIONS, **SEVERAL, **UNDRAFTED}.items())
}
LOGPROBS = [
    *completions({"logprobs": 3}, seed=90),
    *chats({"logprobs": True, "top_logprobs": 3}, seed=91, start="Go on: "),
]
AS_JSON = chats(
    {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "items", "schema": SCHEMA},
        },
        "max_tokens": 64,
    },
    seed=92,
    start="As JSON, please:\n",
)


@pytest.fixture(scope="module")
def expected(plain: Worker) -> dict[str, list[Answer]]:
    """What plain decoding answers; what else is in its batch makes no difference in float32."""
    cases = {**BODIES, "logprobs of all": LOGPROBS, "JSON": AS_JSON}
    answers = iter(plain.ask_all(list(chain.from_iterable(cases.values())), concurrency=32))
    return {name: list(islice(answers, len(bodies))) for name, bodies in cases.items()}


@pytest.mark.parametrize("option", [*OPTIONS, *UNDRAFTED])
def test_tokens_are_the_same_with(
    option: str, expected: dict[str, list[Answer]], speculating: Worker
) -> None:
    answers = speculating.ask_all(BODIES[option])

    assert answers == expected[option]
    assert any(answer.drafts.drafted for answer in answers) is (option in OPTIONS)


def test_tokens_are_the_same_with_several_choices(
    expected: dict[str, list[Answer]], speculating: Worker
) -> None:
    drafted = speculating.metric("engine_spec_draft_tokens_total")

    answers = speculating.ask_all(BODIES["n"])

    assert answers == expected["n"]
    speculating.wait_for("engine_spec_draft_tokens_total", above=drafted)


def test_tokens_are_the_same_with_all_options_in_one_batch(
    expected: dict[str, list[Answer]], speculating: Worker
) -> None:
    columns = zip(*BODIES.values(), strict=True)

    answers = speculating.ask_all(list(chain.from_iterable(columns)), concurrency=16)

    columns_expected = zip(*(expected[name] for name in BODIES), strict=True)
    assert answers == list(chain.from_iterable(columns_expected))
    assert sum(answer.drafts.accepted for answer in answers) > 0


def test_logprobs_are_the_same(expected: dict[str, list[Answer]], speculating: Worker) -> None:
    wanted = expected["logprobs of all"]

    answers = speculating.ask_all(LOGPROBS, concurrency=12)

    assert answers == wanted
    assert sum(answer.drafts.accepted for answer in answers) > 0
    for answer, other in zip(answers, wanted, strict=True):
        (found,), (right,) = answer.logprobs, other.logprobs
        assert found.chosen == pytest.approx(right.chosen, abs=1e-3)
        assert len(found.likeliest) == len(found.chosen) == answer.completion_tokens
        for likeliest, others in zip(found.likeliest, right.likeliest, strict=True):
            assert likeliest == pytest.approx(others, abs=1e-3)


def test_json_of_a_schema_is_the_same(
    expected: dict[str, list[Answer]], speculating: Worker
) -> None:
    answers = speculating.ask_all(AS_JSON)

    assert answers == expected["JSON"]
    assert sum(answer.drafts.accepted for answer in answers) > 0
