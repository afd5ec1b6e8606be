"""A head that drafts on the device, behind a step whose tokens the CPU does not know."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.v1.worker.gpu import model_runner as vllms

from engine.heads import DraftHead, HeadConfig
from engine.worker.v2 import speculator as module
from engine.worker.v2.speculator import HeadPlan, OwnSpeculator, take_our_speculator
from tests.fakes.cuda import DEVICE, made_up_cuda

VOCABULARY, HIDDEN, LONGEST, TOKENS = 31, 8, 5, 3


def make_head() -> DraftHead:
    config = HeadConfig(
        kind="lstm", hidden_size=HIDDEN, vocab_size=VOCABULARY, inner_size=8, positions=TOKENS
    )
    head = DraftHead.new(config, seed=3)
    head.eval()
    return head


def fail(exc: Exception) -> None:
    raise exc


@pytest.mark.parametrize("captured", [True, False], ids=["graph", "no graph"])
def test_it_drafts_what_the_head_would_and_the_cpu_never_waits(
    monkeypatch: pytest.MonkeyPatch, captured: bool
) -> None:
    """Three sequences in slots 2, 0 and 3: one kept two of two drafts, one none, one is read."""
    hidden = torch.randn(7, HIDDEN, generator=torch.Generator().manual_seed(1))
    last = torch.tensor([[9], [0], [4], [7]])
    newest, rows = torch.tensor([4, 9, 7]), torch.tensor([3, 4, 6])
    expected, _ = make_head().propose(hidden[rows], newest, TOKENS)

    with made_up_cuda(monkeypatch) as cuda, torch.inference_mode():
        head = make_head().to(DEVICE)
        head.prepare()
        if captured:
            head.capture(TOKENS, rows=4, tables=None)
        speculator = OwnSpeculator(torch.full((4, LONGEST), 1).to(DEVICE))
        speculator.plan = HeadPlan(head, TOKENS, hidden.to(DEVICE), fail)
        batch = SimpleNamespace(
            idx_mapping=torch.tensor([2, 0, 3], dtype=torch.int32).to(DEVICE),
            cu_num_logits=torch.tensor([0, 3, 5, 6], dtype=torch.int32).to(DEVICE),
            logits_indices=torch.tensor([1, 2, 3, 4, 5, 6]).to(DEVICE),
        )
        sampled = torch.tensor([3, 1, 1], dtype=torch.int32).to(DEVICE)
        last = last.to(DEVICE)
        cuda.reset()

        drafts = speculator.propose(batch, None, None, None, None, sampled, None, last)

        assert (cuda.waits, cuda.copies_in) == ([], 0)
        assert drafts.tolist() == [[*row, 1, 1] for row in expected.tolist()]
        assert speculator.drafted == TOKENS
        speculator.propose(batch, None, None, None, None, sampled, None, last)
        assert speculator.drafted == 0  # a plan is for one step


def test_vllms_own_drafters_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllms, "init_speculator", None)
    monkeypatch.setattr(module, "_vllms_speculator", lambda *_: "EAGLE")
    take_our_speculator()
    states = SimpleNamespace(draft_tokens=torch.tensor([[1, 2], [3, 4]]))

    def make(**fields: Any) -> Any:
        config = SimpleNamespace(additional_config={"specgate": {"speculation": fields}})
        return vllms.init_speculator(config, None, states)

    eagle = {"config": {"method": "eagle", "num_speculative_tokens": 2}}
    assert make(sources=["suffix", "native"], native=eagle) == "EAGLE"
    ours = make(sources=["suffix"])
    assert isinstance(ours, OwnSpeculator)
    rows = SimpleNamespace(idx_mapping=torch.tensor([1]))
    assert ours.propose(rows, *[None] * 7).tolist() == [[3, 4]]
