import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture(scope="module", autouse=True)
def params() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what vllm and torch do while they are imported is theirs
        from vllm import SamplingParams

        import engine.worker.sampling  # noqa: F401
    return SamplingParams


@pytest.fixture
def original(params: Any) -> Iterator[None]:
    check = params._validate_spec_decode
    yield
    params._validate_spec_decode = check


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
def test_who_decodes_plainly(params: Any, asked: dict[str, Any], plainly: bool) -> None:
    from engine.worker.sampling import decodes_plainly

    assert decodes_plainly(params(**asked)) is plainly


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
def test_how_warm_a_request_is(params: Any, asked: dict[str, Any], temperature: float) -> None:
    from engine.worker.sampling import temperature_of

    assert temperature_of(params(**asked)) == temperature


def test_vllm_refuses_some_requests_until_it_is_told_to_take_all(
    params: Any, original: None
) -> None:
    from vllm.exceptions import VLLMValidationError

    from engine.worker.sampling import accept_all_requests

    biased = params(logit_bias={1: 2.0})
    with pytest.raises(VLLMValidationError, match="not yet supported"):
        biased._validate_spec_decode(object())

    accept_all_requests()

    biased._validate_spec_decode(object())


def test_each_draft_token_gets_the_value_of_its_request() -> None:
    import torch

    from engine.worker.sampling import expand_batch_to_tokens

    temperatures = torch.tensor([0.5, 0.0, 2.0, 0.25])
    cumulative = torch.tensor([2, 2, 3, 6], dtype=torch.int32)

    expanded = expand_batch_to_tokens(temperatures, cumulative, 6, 0, 1)
    top_k = expand_batch_to_tokens(torch.tensor([5, 0, 7, 9], dtype=torch.int32), cumulative, 6)

    assert expanded.tolist() == [0.5, 0.5, 2.0, 0.25, 0.25, 0.25]
    assert top_k.tolist() == [5, 5, 7, 9, 9, 9]
    assert top_k.dtype == torch.int32


def test_a_greedy_request_is_not_divided_by_zero() -> None:
    import torch

    from engine.worker.sampling import expand_batch_to_tokens

    expanded = expand_batch_to_tokens(
        torch.tensor([0.0, 0.5]), torch.tensor([1, 2]), 2, replace_from=0, replace_to=1
    )

    assert expanded.tolist() == [1.0, 0.5]


class TestWhatReplacesARefusedToken:
    """Drawn 40,000 times from known probabilities; shares are off by 0.0025 in one of 3 draws."""

    TIMES = 40_000
    TARGET = (0.4, 0.1, 0.0, 0.3, 0.2)

    def draw(self, *, refused: int, drafter: tuple[float, ...] | None = None) -> list[float]:
        import torch

        from engine.worker.sampling import sample_recovered_tokens

        found = sample_recovered_tokens(
            1,
            [0, self.TIMES],
            torch.tensor([0, self.TIMES]),
            torch.full((self.TIMES,), refused, dtype=torch.int32),
            None if drafter is None else torch.tensor(drafter).repeat(self.TIMES, 1),
            torch.tensor(self.TARGET).repeat(self.TIMES, 1),
            SimpleNamespace(generators={1: torch.Generator().manual_seed(7)}),
            torch.device("cpu"),
        )
        assert found.dtype == torch.int32
        shares: list[float] = (torch.bincount(found, minlength=5) / self.TIMES).tolist()
        return shares

    def test_of_a_drafter_that_was_certain_it_is_another_by_the_targets_chances(self) -> None:
        shares = self.draw(refused=0)

        assert shares == pytest.approx([0.0, 1 / 6, 0.0, 1 / 2, 1 / 3], abs=0.012)
        assert shares[0] == shares[2] == 0.0

    def test_of_one_that_was_not_it_is_what_the_target_gives_more(self) -> None:
        shares = self.draw(refused=0, drafter=(0.7, 0.0, 0.1, 0.1, 0.1))

        assert shares == pytest.approx([0.0, 1 / 4, 0.0, 1 / 2, 1 / 4], abs=0.012)
        assert shares[0] == shares[2] == 0.0

    def test_a_seeded_request_gets_the_same_again(self) -> None:
        assert self.draw(refused=3) == self.draw(refused=3)

    def test_where_nothing_is_left_it_is_some_token(self) -> None:
        shares = self.draw(refused=0, drafter=self.TARGET)

        assert sum(shares) == pytest.approx(1.0)
