import json
from typing import Any

import pytest

from gateway.errors import UpstreamError
from gateway.protocol.answer import Answer, read_answer
from gateway.types import Acceptance, SourceCount, Usage
from tests.unit.gateway.requests import CHAT, EMBEDDINGS, MESSAGES, RESPONSES, request_to

SPECULATION = {"num_spec_steps": 2, "num_draft_tokens": 4, "num_accepted_draft_tokens": 1}


def test_an_answer_without_metrics_passes_byte_for_byte() -> None:
    body = b'{"choices": [], "usage":{"prompt_tokens":5,"completion_tokens":3},"v":1.0}'

    assert read_answer(request_to(CHAT), body) == Answer(body, Usage(5, 3), None)


def test_metrics_are_completed_and_all_else_untouched() -> None:
    metrics = json.dumps({"speculative_decoding": SPECULATION}, separators=(",", ":"))
    body = f'{{"x": 1.0,"metrics":{metrics},"usage":null}}'.encode()

    answer = read_answer(request_to(CHAT), body)

    assert answer.acceptance == Acceptance(2, 1.5, {"native": SourceCount(4, 1)})
    added = b',"sources":{"native":{"drafted":4,"accepted":1}}'
    assert answer.body.replace(added, b"") == body
    assert json.loads(answer.body)["metrics"]["speculative_decoding"]["sources"] == {
        "native": {"drafted": 4, "accepted": 1}
    }


@pytest.mark.parametrize(
    "endpoint", [CHAT, RESPONSES, MESSAGES], ids=lambda endpoint: endpoint.path
)
@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"a":'], ids=repr)
def test_an_answer_that_is_no_json_object_is_the_workers_fault(endpoint: Any, body: bytes) -> None:
    with pytest.raises(UpstreamError):
        read_answer(request_to(endpoint), body)


def test_a_plain_answer_is_not_parsed() -> None:
    body = b'[oops,"usage":{"prompt_tokens":5}'

    assert read_answer(request_to(EMBEDDINGS), body) == Answer(body, Usage(5))
