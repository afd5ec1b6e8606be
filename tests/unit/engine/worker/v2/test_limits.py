"""Against vLLM's own buffers: what passes here fits there, and what does not is refused."""

from types import SimpleNamespace
from typing import Any

import pytest
from vllm import SamplingParams
from vllm.exceptions import VLLMValidationError

from engine.worker.v2 import limits
from engine.worker.v2.limits import refuse_longer_lists


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_vllms_verify", lambda *_: None)
    monkeypatch.setattr(SamplingParams, "verify", SamplingParams.verify)  # undone after the test
    refuse_longer_lists()


@pytest.mark.parametrize(
    ("name", "fields", "most"),
    [
        ("allowed_token_ids", lambda n: {"allowed_token_ids": list(range(n))}, 1024),
        ("logit_bias", lambda n: {"logit_bias": dict.fromkeys(range(n), 1.0)}, 1024),
        ("stop_token_ids", lambda n: {"stop_token_ids": list(range(n)), "min_tokens": 1}, 128),
    ],
)
def test_a_list_is_as_long_as_the_engine_can_hold(name: str, fields: Any, most: int) -> None:
    model = SimpleNamespace()
    SamplingParams(**fields(most)).verify(model, None, None, None)

    with pytest.raises(VLLMValidationError, match=f"{name} has {most + 1} entries"):
        SamplingParams(**fields(most + 1)).verify(model, None, None, None)


def test_stop_tokens_are_no_list_of_the_engine_without_min_tokens() -> None:
    params = SamplingParams(stop_token_ids=list(range(1000)))

    params.verify(SimpleNamespace(), None, None, None)
