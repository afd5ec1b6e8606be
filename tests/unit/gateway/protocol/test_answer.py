import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import UpstreamError
from gateway.protocol.answer import Answer, read_answer
from gateway.types import Acceptance, SourceCount, Usage
from tests.fakes.coded_steps import coded_step
from tests.unit.gateway.requests import CHAT, EMBEDDINGS, MESSAGES, request_to

SPECULATION = {"num_spec_steps": 2, "num_draft_tokens": 4, "num_accepted_draft_tokens": 1}


def test_an_answer_without_metrics_passes_byte_for_byte() -> None:
    body = b'{"choices": [], "usage":{"prompt_tokens":5,"completion_tokens":3},"v":1.0}'

    assert read_answer(request_to(CHAT), body) == Answer(body, Usage(5, 3), None)


def test_metrics_are_completed_and_nothing_else_changes() -> None:
    metrics = json.dumps({"speculative_decoding": SPECULATION}, separators=(",", ":"))
    body = f'{{"x": 1.0,"metrics":{metrics},"usage":null}}'.encode()

    answer = read_answer(request_to(CHAT), body)

    assert answer.acceptance == Acceptance(2, 1.5, {"native": SourceCount(4, 1)})
    added = b',"sources":{"native":{"drafted":4,"accepted":1}}'
    assert answer.body.replace(added, b"") == body
    assert json.loads(answer.body)["metrics"]["speculative_decoding"]["sources"] == {
        "native": {"drafted": 4, "accepted": 1}
    }


def test_an_answer_that_is_no_json_object_is_the_workers_fault() -> None:
    with pytest.raises(UpstreamError):
        read_answer(request_to(MESSAGES), b"<html>")


def test_a_plain_answer_is_not_parsed() -> None:
    body = b'[oops,"usage":{"prompt_tokens":5}'

    assert read_answer(request_to(EMBEDDINGS), body) == Answer(body, Usage(5))


def predicted_answer(*, tokens: int, detailed: bool = True) -> Answer:
    """The answer to a prediction of `tokens`, of which 8 were drafted and 5 accepted."""
    found: dict[str, Any] = {
        "num_spec_steps": 1,
        "num_draft_tokens": 8,
        "num_accepted_draft_tokens": 5,
    }
    if detailed:
        found |= {"per_step_accepted": [5], "per_step_drafted": [coded_step(8, "prediction")]}
    body = {"choices": [], "usage": {"x": 1}, "metrics": {"speculative_decoding": found}}
    request = replace(request_to(CHAT), predicted_tokens=(1,) * tokens)
    return read_answer(request, json.dumps(body, separators=(",", ":")).encode())


@pytest.mark.parametrize(("tokens", "rejected"), [(20, 15), (5, 0), (3, 0)])
def test_the_outcome_of_a_prediction_is_added(tokens: int, rejected: int) -> None:
    answer = json.loads(predicted_answer(tokens=tokens).body)

    assert answer["usage"] == {
        "x": 1,
        "completion_tokens_details": {
            "accepted_prediction_tokens": 5,
            "rejected_prediction_tokens": rejected,
        },
    }
    assert answer["metrics"]["speculative_decoding"]["per_step_drafted"] == [8]


@pytest.mark.parametrize(("tokens", "detailed"), [(0, True), (9, False)], ids=str)
def test_without_a_prediction_or_its_steps_no_counts_are_added(tokens: int, detailed: bool) -> None:
    answer = json.loads(predicted_answer(tokens=tokens, detailed=detailed).body)

    assert answer["usage"] == {"x": 1}


def test_without_metrics_no_counts_of_a_prediction_are_added() -> None:
    body = b'{"choices":[],"usage":{"prompt_tokens":5},"metrics":{"speculative_decoding":null}}'
    request = replace(request_to(CHAT), predicted_tokens=(1, 2))

    assert read_answer(request, body).body == body
