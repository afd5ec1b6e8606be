import json

import httpx
import pytest

from bench.exact.answers import ALTERNATIVES, Answer, answer_of, body_of
from gateway.verify import Outcome, compare
from tests.unit.bench.exact.example import body, plain, prompt


def test_an_answer_has_tokens_counts_and_message() -> None:
    found = Answer.read(body([7, 8, 9], steps=[3, 2]), is_streamed=False)

    assert found == Answer(
        (7, 8, 9), (), {"content": "text"}, "length",
        prompt_tokens=50, cached_tokens=32, drafted=5, accepted=2,
    )  # fmt: skip


def test_the_reference_has_log_probabilities_by_id() -> None:
    found = Answer.read(body([4], likeliest=True), is_streamed=False)

    assert found.likeliest == ({"4": -0.25, "5": -0.3125},)
    assert found.drafted == 0


def test_log_probabilities_must_be_of_all_tokens() -> None:
    lacking = json.loads(body([4, 5], likeliest=True))
    lacking["choices"][0]["logprobs"]["content"].pop()

    with pytest.raises(ValueError, match="1 log-probabilities for 2 tokens"):
        Answer.read(json.dumps(lacking), is_streamed=False)


def test_behind_a_stop_string_the_trace_tells_what_was_accepted() -> None:
    stopped = json.loads(body([7, 8, 9]))
    stopped["speculation"] = {"trace": [["target", 2], ["suffix", 3], ["head", 1]]}

    found = Answer.read(json.dumps(stopped), is_streamed=False)

    assert (found.drafted, found.accepted) == (2, 2)


def test_a_stream_is_put_together() -> None:
    chunks = [
        {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"delta": {"content": "a"}, "token_ids": [1, 2]}]},
        {"choices": [{"delta": {"content": "b"}, "token_ids": [3], "finish_reason": "stop"}]},
        {
            "choices": [],
            "usage": {"prompt_tokens": 9, "completion_tokens": 3},
            "metrics": {
                "speculative_decoding": {"per_step_drafted": [2], "per_step_accepted": [1]}
            },
        },
    ]
    text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"

    found = Answer.read(text, is_streamed=True)

    assert (found.ids, found.message, found.finish_reason) == ((1, 2, 3), {"content": "ab"}, "stop")
    assert (found.drafted, found.accepted, found.cached_tokens) == (2, 1, 0)


def test_a_kept_answer_is_the_same_again() -> None:
    answer = plain(1, 2)

    assert Answer.from_json(json.loads(json.dumps(answer.as_json()))) == answer


def test_answers_are_compared_by_id_with_the_margin_of_the_reference() -> None:
    reference = plain(1, 2, margin=0.25).asked()

    same = compare(reference, Answer((1, 2), (), {"content": "(1, 2)"}, "length").asked(), margin=0)
    near = compare(reference, Answer((1, 3), (), {"content": "x"}, "length").asked(), margin=0.5)
    far = compare(reference, Answer((1, 3), (), {"content": "x"}, "length").asked(), margin=0.1)

    assert same.outcome is Outcome.SAME
    assert (near.outcome, near.place) == (Outcome.NEAR_TIE, 1)
    assert near.margin == pytest.approx(0.25)
    assert far.outcome is Outcome.DIFFERS


def test_only_the_reference_asks_for_log_probabilities() -> None:
    asked = prompt(1, stream=True)

    reference = body_of(asked, "m", salt="s", is_reference=True)
    drafting = body_of(asked, "m", salt="s", is_reference=False)

    assert (reference["top_logprobs"], reference["logprobs"]) == (ALTERNATIVES, True)
    assert drafting == {
        **asked.body, "model": "m", "temperature": 0.0, "cache_salt": "s", "return_token_ids": True,
        "stream_options": {"include_usage": True},
    }  # fmt: skip


def test_a_refusal_is_an_answer_and_an_error_is_not() -> None:
    refused = answer_of(httpx.Response(400, text="no grammars"), is_streamed=False)

    assert refused.asked().refusal == "no grammars"
    with pytest.raises(ValueError, match="status 500: out of order"):
        answer_of(httpx.Response(500, text="out of order"), is_streamed=False)
