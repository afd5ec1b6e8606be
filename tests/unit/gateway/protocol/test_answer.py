import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import UpstreamError
from gateway.protocol.answer import Answer, read_answer
from gateway.types import Acceptance, SourceCount, Usage
from tests.fakes.coded_steps import coded_step
from tests.unit.gateway.requests import CHAT, EMBEDDINGS, MESSAGES, request_to

COUNTS = {"num_spec_steps": 1, "num_draft_tokens": 8, "num_accepted_draft_tokens": 5}
STEPS = {"per_step_accepted": [5], "per_step_drafted": [coded_step(8, "prediction")]}


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (CHAT, b'{"choices": [], "usage":{"prompt_tokens":5,"completion_tokens":3},"v":1.0}'),
        (EMBEDDINGS, b'[oops,"usage":{"prompt_tokens":5,"completion_tokens":3}'),
    ],
    ids=["chat", "plain-and-not-parsed"],
)
def test_an_answer_without_metrics_passes_byte_for_byte(endpoint: Any, body: bytes) -> None:
    assert read_answer(request_to(endpoint), body) == Answer(body, Usage(5, 3), None)


def test_metrics_are_completed_and_nothing_else_changes() -> None:
    metrics = json.dumps({"speculative_decoding": COUNTS}, separators=(",", ":"))
    body = f'{{"x": 1.0,"metrics":{metrics},"usage":null}}'.encode()

    answer = read_answer(request_to(CHAT), body)

    assert answer.acceptance == Acceptance(1, 6.0, {"native": SourceCount(8, 5)})
    added = b',"sources":{"native":{"drafted":8,"accepted":5}}'
    assert added in answer.body
    assert answer.body.replace(added, b"") == body


def test_an_answer_that_is_no_json_object_is_the_workers_fault() -> None:
    with pytest.raises(UpstreamError):
        read_answer(request_to(MESSAGES), b"<html>")


@pytest.mark.parametrize(
    ("tokens", "metrics", "rejected"),
    [
        (20, {**COUNTS, **STEPS}, 15),
        (3, {**COUNTS, **STEPS}, 0),
        (0, {**COUNTS, **STEPS}, None),
        (9, COUNTS, None),
        (9, None, None),
    ],
    ids=["some-rejected", "none-rejected", "no-prediction", "no-steps", "no-metrics"],
)
def test_the_outcome_of_a_prediction_is_added(
    tokens: int, metrics: dict[str, Any] | None, rejected: int | None
) -> None:
    body = {"choices": [], "usage": {"x": 1}, "metrics": {"speculative_decoding": metrics}}
    request = replace(request_to(CHAT), predicted_tokens=(1,) * tokens)

    found = read_answer(request, json.dumps(body, separators=(",", ":")).encode())

    counts = {"accepted_prediction_tokens": 5, "rejected_prediction_tokens": rejected}
    details = {} if rejected is None else {"completion_tokens_details": counts}
    assert json.loads(found.body)["usage"] == {"x": 1, **details}
