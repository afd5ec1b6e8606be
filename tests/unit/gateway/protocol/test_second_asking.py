"""The body of the second asking, and what is read of its answer."""

import json
from typing import Any

import pytest

from gateway.errors import UpstreamError
from gateway.protocol import Dialect, PlainAnswer, read_second_answer, second_body

FORWARDED: dict[str, Any] = {
    "messages": [],
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_completion_tokens": 90,
    "top_k": 5,
    "cache_salt": "theirs",
    "vllm_xargs": {
        "mine": 1,
        "specgate_mode": "auto",
        "specgate_tenant": "t",
        "specgate_trace": 1,
        "specgate_adapt": 1,
        "specgate_prediction": [1],
        "specgate_max_draft_tokens": 4,
    },
}


@pytest.mark.parametrize(
    ("dialect", "logprobs"),
    [
        (Dialect.CHAT, {"logprobs": True, "top_logprobs": 5}),
        (Dialect.COMPLETIONS, {"logprobs": 5}),
    ],
)
def test_the_second_body_is_the_first_without_drafts(
    dialect: Dialect, logprobs: dict[str, Any]
) -> None:
    body = second_body(json.dumps(FORWARDED).encode(), dialect, max_tokens=7, salt="s")

    assert json.loads(body) == {
        "messages": [],
        "top_k": 5,
        "max_tokens": 7,
        "cache_salt": "s",
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        "vllm_xargs": {
            "mine": 1,
            "specgate_mode": "off",
            "specgate_tenant": "t",
            "specgate_indexed": 0,
        },
        **logprobs,
    }


def _chat() -> dict[str, Any]:
    def token(number: int, other: int) -> dict[str, Any]:
        named = {"token": f"token_id:{number}", "logprob": -0.5}
        return {**named, "top_logprobs": [named, {"token": f"token_id:{other}", "logprob": -1.5}]}

    return {"content": [token(3, 4), token(5, 6)]}


COMPLETION: dict[str, Any] = {
    "tokens": ["token_id:3", "token_id:5"],
    "token_logprobs": [-0.5, -0.5],
    "top_logprobs": [{"token_id:3": -0.5, "token_id:4": -1.5}, {"token_id:6": -1.5}],
    "text_offset": [0, 1],
}


@pytest.mark.parametrize("logprobs", [_chat(), COMPLETION], ids=["chat", "completion"])
def test_tokens_and_log_probabilities_are_read_by_id(logprobs: dict[str, Any]) -> None:
    choice = {"token_ids": [3, 5], "logprobs": logprobs, "stop_reason": None}

    found = read_second_answer(json.dumps({"choices": [choice]}).encode())

    assert found == PlainAnswer([3, 5], [{3: -0.5, 4: -1.5}, {5: -0.5, 6: -1.5}], hit_stop=False)


BROKEN: dict[str, dict[str, Any]] = {
    "no ids at all": {"text": "a"},
    "null": {"token_ids": None, "logprobs": _chat()},
    "no logprobs": {"token_ids": [3, 5], "logprobs": None},
    "too few": {"token_ids": [3], "logprobs": _chat()},
    "text": {"token_ids": [3, 5], "logprobs": {**COMPLETION, "tokens": ["a", "b"]}},
    "ragged": {"token_ids": [3, 5], "logprobs": {**COMPLETION, "tokens": ["token_id:3"]}},
}


def test_an_answer_that_is_nested_too_deeply_is_an_error() -> None:
    with pytest.raises(UpstreamError, match="second answer"):
        read_second_answer(b'{"choices":' + 3000 * b"[" + 3000 * b"]" + b"}")


@pytest.mark.parametrize("case", BROKEN)
def test_another_answer_is_an_error_that_quotes_nothing(case: str) -> None:
    with pytest.raises(UpstreamError, match="second answer"):
        read_second_answer(json.dumps({"choices": [BROKEN[case]]}).encode())
