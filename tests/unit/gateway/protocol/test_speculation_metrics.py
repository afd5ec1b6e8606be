import json
from typing import Any

import pytest

from gateway.protocol.speculation_metrics import read_acceptance, with_sources
from gateway.types import Acceptance, SourceCount

FOUND = {"num_spec_steps": 4, "num_draft_tokens": 10, "num_accepted_draft_tokens": 6}
ACCEPTANCE = Acceptance(4, 2.5, {"native": SourceCount(10, 6)})


def answer(found: object) -> dict[str, Any]:
    return {"metrics": {"speculative_decoding": found}}


def text(found: object) -> bytes:
    return json.dumps(answer(found), separators=(",", ":")).encode()


def test_counts_are_read() -> None:
    assert read_acceptance(answer(FOUND)) == ACCEPTANCE


def test_a_request_without_a_drafted_step_has_no_length() -> None:
    found = {"num_spec_steps": 0, "num_draft_tokens": 0, "num_accepted_draft_tokens": 0}

    assert read_acceptance(answer(found)) == Acceptance(0, None, {"native": SourceCount(0, 0)})


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"metrics": None},
        {"metrics": []},
        answer(None),
        answer({}),
        answer({**FOUND, "num_spec_steps": "4"}),
        answer({**FOUND, "num_draft_tokens": None}),
    ],
    ids=str,
)
def test_without_counts_there_is_no_acceptance(broken: dict[str, Any]) -> None:
    assert read_acceptance(broken) is None


@pytest.mark.parametrize("detail", [{}, {"per_step_drafted": [4, 6], "per_step_accepted": [6, 0]}])
def test_sources_are_added_as_one_more_member(detail: dict[str, Any]) -> None:
    completed = json.loads(with_sources(text({**FOUND, **detail}), ACCEPTANCE))

    assert completed == answer(
        {**FOUND, **detail, "sources": {"native": {"drafted": 10, "accepted": 6}}}
    )


@pytest.mark.parametrize("found", [{}, None, {"a": {}}], ids=repr)
def test_an_object_we_do_not_know_stays_as_it_is(found: object) -> None:
    assert with_sources(text(found), ACCEPTANCE) == text(found)


def test_a_model_that_writes_our_key_changes_nothing() -> None:
    words = {"content": '"speculative_decoding":{"a":1}'}
    before = json.dumps({**words, **answer(FOUND)}, separators=(",", ":")).encode()

    completed = json.loads(with_sources(before, ACCEPTANCE))

    assert completed["content"] == words["content"]
    assert "sources" in completed["metrics"]["speculative_decoding"]
