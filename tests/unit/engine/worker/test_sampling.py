from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm import SamplingParams
from vllm.exceptions import VLLMValidationError

from engine.worker.sampling import (
    accept_all_requests,
    decodes_plainly,
    expand_batch_to_tokens,
    sample_recovered_tokens,
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


def test_each_draft_token_gets_the_value_of_its_request() -> None:
    temperatures = torch.tensor([0.5, 0.0, 2.0, 0.25])
    cumulative = torch.tensor([2, 2, 3, 6], dtype=torch.int32)

    expanded = expand_batch_to_tokens(temperatures, cumulative, 6, 0, 1)
    top_k = expand_batch_to_tokens(torch.tensor([5, 0, 7, 9], dtype=torch.int32), cumulative, 6)

    assert expanded.tolist() == [0.5, 0.5, 2.0, 0.25, 0.25, 0.25]
    assert top_k.tolist() == [5, 5, 7, 9, 9, 9]
    assert top_k.dtype == torch.int32


class TestRecoveredTokens:
    """40,000 samples of known probabilities; the standard error of a share is at most 0.0025."""

    TIMES = 40_000
    TARGET = (0.4, 0.1, 0.0, 0.3, 0.2)

    def draw(self, *, rejected: int, drafter: tuple[float, ...] | None = None) -> list[float]:
        found = sample_recovered_tokens(
            1,
            [0, self.TIMES],
            torch.tensor([0, self.TIMES]),
            torch.full((self.TIMES,), rejected, dtype=torch.int32),
            None if drafter is None else torch.tensor(drafter).repeat(self.TIMES, 1),
            torch.tensor(self.TARGET).repeat(self.TIMES, 1),
            SimpleNamespace(generators={1: torch.Generator().manual_seed(7)}),
            torch.device("cpu"),
        )
        assert found.dtype == torch.int32
        shares: list[float] = (torch.bincount(found, minlength=5) / self.TIMES).tolist()
        return shares

    def test_after_a_certain_drafter_other_tokens_keep_their_ratios(self) -> None:
        shares = self.draw(rejected=0)

        assert shares == pytest.approx([0.0, 1 / 6, 0.0, 1 / 2, 1 / 3], abs=0.012)
        assert shares[0] == shares[2] == 0.0

    def test_after_an_uncertain_drafter_the_difference_is_sampled(self) -> None:
        shares = self.draw(rejected=0, drafter=(0.7, 0.0, 0.1, 0.1, 0.1))

        assert shares == pytest.approx([0.0, 1 / 4, 0.0, 1 / 2, 1 / 4], abs=0.012)
        assert shares[0] == shares[2] == 0.0

    def test_a_seed_makes_the_token_reproducible(self) -> None:
        assert self.draw(rejected=3) == self.draw(rejected=3)
