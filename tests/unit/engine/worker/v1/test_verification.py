import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.platforms import current_platform
from vllm.v1.sample.logits_processor.builtin import (
    LogitBiasLogitsProcessor,
    MinTokensLogitsProcessor,
)
from vllm.v1.sample.sampler import Sampler
from vllm.v1.spec_decode.metadata import SpecDecodeMetadata

from engine.worker.v1 import verification
from engine.worker.v1.verification import (
    expand_batch_to_tokens,
    sample_recovered_tokens,
    wants_only_tokens,
)

VOCABULARY = 97
NOTHING = -1


current_platform.import_kernels()


def sampling(**fields: Any) -> Any:
    """vLLM's metadata of a step with plain greedy requests."""
    return SimpleNamespace(**{
        "all_greedy": True,
        "all_random": False,
        "temperature": None,
        "top_k": None,
        "top_p": None,
        "generators": {},
        "no_penalties": True,
        "max_num_logprobs": None,
        "logprob_token_ids": None,
        "allowed_token_ids_mask": None,
        "bad_words_token_ids": {},
        "logitsprocs": SimpleNamespace(non_argmax_invariant=[]),
        "thinking_budget_state_holder": None,
        **fields,
    })  # fmt: skip


def verify(drafts: Sequence[Sequence[int]], logits: Any, asked: Any = None) -> list[list[int]]:
    metadata = SpecDecodeMetadata.make_dummy([list(draft) for draft in drafts], torch.device("cpu"))
    last = metadata.cu_num_sampled_tokens.long() - 1
    drafted = torch.ones(len(logits), dtype=torch.bool).index_fill_(0, last, value=False)
    metadata.target_logits_indices = drafted.nonzero().squeeze(1)  # zeros in a dummy
    output = verification.verify(metadata, logits, asked or sampling(), Sampler())
    assert output.logprobs_tensors is None
    assert output.sampled_token_ids.dtype == torch.int32
    rows: list[list[int]] = output.sampled_token_ids.tolist()
    return rows


def logits_of(likeliest: Sequence[int]) -> Any:
    return torch.nn.functional.one_hot(torch.tensor(likeliest), VOCABULARY).bfloat16()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_greedy_step_matches_verification_token_by_token(dtype: str) -> None:
    """Logits take few values, so most maxima are ties; the first maximum counts."""
    draws = random.Random(3)
    noise = torch.Generator().manual_seed(3)
    taken = 0
    for _ in range(60):
        lengths = [draws.randrange(6) for _ in range(draws.randint(1, 8))]
        positions = sum(lengths) + len(lengths)
        logits = torch.randint(0, 9, (positions, VOCABULARY), generator=noise).to(
            getattr(torch, dtype)
        )
        best = logits.float().argmax(-1).tolist()
        drafts, expected, position = [], [], 0
        for length in lengths:
            ours = best[position : position + length + 1]
            draft = [token if draws.random() < 0.8 else token + 1 for token in ours[:length]]
            row = []
            for token, wanted in zip([*draft, None], ours, strict=True):
                row.append(wanted)
                if token != wanted:
                    break
            drafts.append(draft)
            expected.append(row + [NOTHING] * (max(lengths) + 1 - len(row)))
            position += length + 1
            taken += len(row) - 1

        assert verify(drafts, logits) == expected
    assert taken > 100


def test_a_greedy_step_without_drafts_takes_the_likeliest_tokens() -> None:
    output = verification.take_likeliest(logits_of([5, 0, 96]))

    assert output.logprobs_tensors is None
    assert output.sampled_token_ids.dtype == torch.int32
    assert output.sampled_token_ids.tolist() == [[5], [0], [96]]


class TestSampling:
    """20,000 samples of known probabilities; the standard error of a share is at most 0.0035."""

    TIMES = 20_000
    PROBABILITIES = (0.4, 0.1, 0.0, 0.3, 0.2)
    CLOSE = 0.014

    def draw(self, draft: list[int], *, temperature: float = 1.0) -> Any:
        """Return tokens of shape (times, longest draft + 1) of requests with the same draft."""
        torch.manual_seed(5)
        logits = torch.tensor(self.PROBABILITIES).log() * temperature
        positions = self.TIMES * (len(draft) + 1)
        asked = sampling(
            all_greedy=False,
            all_random=True,
            temperature=torch.full((self.TIMES,), temperature),
            logitsprocs=SimpleNamespace(non_argmax_invariant=[], argmax_invariant=[]),
            output_token_ids=[],
        )
        return torch.tensor(verify([draft] * self.TIMES, logits.repeat(positions, 1), asked))

    def shares(self, tokens: Any) -> list[float]:
        shares: list[float] = (torch.bincount(tokens, minlength=5) / len(tokens)).tolist()
        return shares

    @pytest.mark.parametrize(
        ("token", "temperature"), [(0, 1.0), (1, 0.5), (2, 1.0), (3, 0.5), (4, 1.0)]
    )
    def test_the_distribution_is_the_targets_whatever_was_drafted(
        self, token: int, temperature: float
    ) -> None:
        tokens = self.draw([token], temperature=temperature)

        assert self.shares(tokens[:, 0]) == pytest.approx(self.PROBABILITIES, abs=self.CLOSE)
        assert (tokens[:, 0] != 2).all()
        kept = tokens[:, 0] == token
        assert (tokens[~kept, 1] == NOTHING).all()
        if kept.any():
            within = 4 * 0.5 / int(kept.sum()) ** 0.5
            assert self.shares(tokens[kept, 1]) == pytest.approx(self.PROBABILITIES, abs=within)

    def test_nothing_is_accepted_after_a_rejection(self) -> None:
        tokens = self.draw([0, 3, 4])

        first, both = tokens[:, 0] == 0, (tokens[:, 0] == 0) & (tokens[:, 1] == 3)
        assert (tokens[~first, 1:] == NOTHING).all()
        assert (tokens[first & ~both, 2:] == NOTHING).all()
        assert both.float().mean().item() == pytest.approx(0.4 * 0.3, abs=self.CLOSE)
        assert (tokens[both, 2] != NOTHING).all()

    def test_greedy_requests_in_a_mixed_batch(self) -> None:
        asked = sampling(
            all_greedy=False,
            temperature=torch.tensor([0.0, 1.0, 0.0]),
            logitsprocs=SimpleNamespace(non_argmax_invariant=[], argmax_invariant=[]),
            output_token_ids=[],
        )
        certain = logits_of([5, 6, 7, 8, 9, 10, 11]).float() * 1e4

        rows = verify([[5, 9], [8], [11]], certain, asked)

        assert rows == [[5, 6, NOTHING], [8, 9, NOTHING], [10, NOTHING, NOTHING]]


def test_steps_that_we_verify() -> None:
    def processors(*, biases: Any = (), least: Any = ()) -> Any:
        biased, lengthened = (
            object.__new__(kind) for kind in (LogitBiasLogitsProcessor, MinTokensLogitsProcessor)
        )
        biased.biases, lengthened.min_toks = dict(biases), dict(least)
        return SimpleNamespace(non_argmax_invariant=[biased, lengthened])

    assert wants_only_tokens(sampling())
    assert wants_only_tokens(sampling(logitsprocs=processors()))
    assert not wants_only_tokens(sampling(logitsprocs=processors(biases={0: {1: 2.0}})))
    assert not wants_only_tokens(sampling(logitsprocs=processors(least={0: (1, [], {2})})))


@pytest.mark.parametrize(
    "asked",
    [
        {"top_k": object()},
        {"top_p": object()},
        {"no_penalties": False},
        {"max_num_logprobs": 0},
        {"logprob_token_ids": {0: [1]}},
        {"allowed_token_ids_mask": object()},
        {"bad_words_token_ids": {0: [[1]]}},
        {"logitsprocs": SimpleNamespace(non_argmax_invariant=[object()])},
        {"thinking_budget_state_holder": SimpleNamespace(has_tracked_requests=lambda: True)},
    ],
    ids=lambda asked: next(iter(asked)),
)
def test_steps_that_vllm_verifies(asked: dict[str, Any]) -> None:
    assert not wants_only_tokens(sampling(**asked))


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
