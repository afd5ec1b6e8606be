from typing import Any

import pytest
import torch
from vllm import SamplingParams
from vllm.v1.worker import gpu_model_runner
from vllm.v1.worker.gpu_input_batch import CachedRequestState

from engine.worker.v1.resume import ResumableState, begin_with_resumed_tokens


def state(tokens: list[int] | None, *, seed: int | None = None) -> ResumableState:
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    arguments = None if tokens is None else {"specgate_resume": tokens}
    fields: dict[str, Any] = {
        "req_id": "r",
        "prompt_token_ids": [1, 2, 3],
        "mm_features": [],
        "sampling_params": SamplingParams(extra_args=arguments),
        "generator": generator,
        "block_ids": ([],),
        "num_computed_tokens": 0,
        "output_token_ids": [],
    }
    return ResumableState(**fields)


def test_a_state_begins_with_the_resumed_tokens() -> None:
    found = state([7, 8])

    assert found.output_token_ids == [7, 8]
    assert (found.num_prompt_tokens, found.num_tokens) == (3, 5)


def test_other_states_begin_with_their_prompt() -> None:
    assert state(None).num_tokens == 3


def drawn(tokens: list[int] | None, seed: int = 5) -> list[float]:
    numbers: list[float] = torch.rand(4, generator=state(tokens, seed=seed).generator).tolist()
    return numbers


def test_random_numbers_depend_on_the_seed_and_the_place() -> None:
    assert drawn([7, 8]) == drawn([9, 9])
    assert len({tuple(drawn(tokens)) for tokens in (None, [7], [7, 8])}) == 3
    assert drawn([7], seed=5) != drawn([7], seed=6)
    assert drawn(None) == torch.rand(4, generator=torch.Generator().manual_seed(5)).tolist()


def test_the_runner_makes_such_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_model_runner, "CachedRequestState", CachedRequestState)

    begin_with_resumed_tokens()

    assert gpu_model_runner.CachedRequestState is ResumableState
