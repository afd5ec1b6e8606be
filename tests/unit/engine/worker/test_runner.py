"""Our hooks over a runner that only records; tests/e2e shows them over vLLM's."""

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

from engine.worker.runner import HybridGPUModelRunner, _HybridDrafting

VOCABULARY = 50


class Recorder:
    """What our hooks call of vLLM's runner."""

    def __init__(self) -> None:
        self.logits_rows: list[int] = []
        self.model = SimpleNamespace(
            compute_logits=lambda hidden: self.logits_rows.append(len(hidden))
        )

    def _update_states(self, scheduler_output: Any) -> None: ...

    def _dummy_run(self, tokens: int, **_: Any) -> tuple[torch.Tensor, None]:
        return torch.zeros(tokens, 4), None

    def _sync_device(self) -> None: ...


class Runner(_HybridDrafting, Recorder):
    """A rank that does not draft."""

    def __init__(self) -> None:
        Recorder.__init__(self)
        self._speculation = None
        self._most_rows = 512
        self._draft_probs: torch.Tensor | None = torch.ones(2, 3, VOCABULARY)
        self._draft_prob_req_ids: list[str] | None = ["a", "b"]


def scheduled(**told: Any) -> Any:
    return SimpleNamespace(num_spec_tokens_to_schedule=3, **told)


@pytest.mark.parametrize(
    ("told", "keeps"),
    [({"specgate_all_native": True}, True), ({"specgate_all_native": False}, False), ({}, True)],
    ids=["native", "another source", "vLLM's scheduler"],
)
def test_every_rank_drops_probabilities_of_drafts_that_are_not_used(
    told: dict[str, bool], keeps: bool
) -> None:
    rank = Runner()

    rank._update_states(scheduled(**told))

    assert (rank._draft_probs is not None) is keeps
    assert (rank._draft_prob_req_ids is not None) is keeps


@pytest.mark.parametrize(
    ("requests", "most_rows", "expected"),
    [(128, 512, 384), (4, 132, 128), (400, 800, 400), (8, 8, 8)],
    ids=["bounded", "all drafts", "vLLM's own", "no drafts"],
)
def test_the_memory_profile_sees_the_largest_verification(
    requests: int, most_rows: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(GPUModelRunner, "_dummy_sampler_run", lambda _, hidden: seen.append(hidden))
    runner = HybridGPUModelRunner.__new__(HybridGPUModelRunner)
    runner._most_rows, runner.max_num_reqs = most_rows, requests

    runner._dummy_sampler_run(torch.zeros(requests, 4))

    assert [torch.rand_like(hidden).shape for hidden in seen] == [(expected, 4)]


def test_vllm_sizes_its_sampler_run_by_the_states() -> None:
    """The contract on which our `_dummy_sampler_run` stands: a draft token for each state."""
    source = inspect.getsource(GPUModelRunner._dummy_sampler_run)

    assert "num_reqs = logits.size(0)" in source
    assert "draft_token_ids = [[0] for _ in range(num_reqs)]" in source


@pytest.mark.parametrize(("tokens", "rows"), [(100, 100), (2048, 512)])
def test_profiled_steps_compute_no_more_logits_than_real_ones(tokens: int, rows: int) -> None:
    runner = Runner()

    runner._run_empty_step(tokens)

    assert runner.logits_rows == [rows]
