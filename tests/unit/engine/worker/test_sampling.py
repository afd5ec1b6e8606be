from collections.abc import Iterator
from typing import Any

import pytest
from vllm import SamplingParams
from vllm.exceptions import VLLMValidationError

from engine.worker.sampling import (
    accept_all_requests,
    decodes_plainly,
    temperature_of,
)


@pytest.fixture
def original() -> Iterator[None]:
    check = SamplingParams._validate_spec_decode
    yield
    SamplingParams._validate_spec_decode = check


@pytest.mark.parametrize(
    ("asked", "plainly"),
    [
        ({}, False),
        ({"temperature": 0.0, "seed": 1}, False),
        ({"temperature": 0.8, "seed": 1}, True),
        ({"temperature": 0.8, "top_k": 5, "top_p": 0.9}, False),
        ({"logit_bias": {1: 2.0}}, True),
        ({"min_p": 0.1}, True),
        ({"min_tokens": 3, "presence_penalty": 1.0}, False),
    ],
    ids=str,
)
def test_requests_that_decode_without_drafts(asked: dict[str, Any], plainly: bool) -> None:
    assert decodes_plainly(SamplingParams(**asked)) is plainly


@pytest.mark.parametrize(
    ("asked", "temperature"),
    [
        ({}, 1.0),
        ({"temperature": 0.7, "top_p": 0.5}, 0.7),
        ({"temperature": 0.0}, 0.0),
        ({"temperature": 0.7, "top_k": 1}, 0.0),
    ],
    ids=str,
)
def test_sampling_temperature_of_a_request(asked: dict[str, Any], temperature: float) -> None:
    assert temperature_of(SamplingParams(**asked)) == temperature


def test_requests_that_vllm_rejects_are_accepted(original: None) -> None:
    biased = SamplingParams(logit_bias={1: 2.0})
    with pytest.raises(VLLMValidationError, match="not yet supported"):
        biased._validate_spec_decode(object())

    accept_all_requests()

    biased._validate_spec_decode(object())
