"""The speculator that a V2 runner asks for drafts right behind its sampling, on the device.

vLLM's own drafters are speculators of its own. Without one, ours runs the draft head in steps that
are launched ahead (docs/adr/0035).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from vllm.v1.worker.gpu import model_runner as vllms
from vllm.v1.worker.gpu.spec_decode.speculator import BaseSpeculator

from engine.heads import DraftHead
from engine.worker.speculation import read_settings

_Speculator: Any = BaseSpeculator


class HeadPlan(NamedTuple):
    """A pass of a draft head on the device, behind a step whose tokens are not known on the CPU.

    Attributes:
        head: The head; one that needs no more than the target's last states.
        tokens: How many it drafts for each sequence.
        hidden: The step's hidden states.
        fail: Called with an error of the pass.
    """

    head: DraftHead
    tokens: int
    hidden: torch.Tensor
    fail: Callable[[Exception], None]


class OwnSpeculator(_Speculator):
    """The speculator that vLLM gets when none of its own is configured.

    It runs the draft head if that is planned for a step. All other drafts are made when vLLM
    collects them.

    Attributes:
        plan: For the next call of `propose` only.
        drafted: How many tokens the latest call has drafted for each sequence.

    Args:
        drafts: Where the runner reads the drafts of a step, shape (requests, longest draft).
    """

    supports_mm_inputs = False
    draft_logits = None

    def __init__(self, drafts: torch.Tensor) -> None:
        self.plan: HeadPlan | None = None
        self.drafted = 0
        self._drafts = drafts

    def init_cudagraph_manager(self, cudagraph_mode: Any) -> None:
        """Do nothing; there is nothing to capture."""

    def capture(self) -> None:
        """Do nothing."""

    def prepare_watermarking(self, *_: Any) -> None:
        """Do nothing: only a draft model that samples needs the marks."""

    def propose(
        self,
        input_batch: Any,
        attn_metadata: Any,  # vLLM names its arguments
        slot_mappings: Any,
        last_hidden_states: Any,
        aux_hidden_states: Any,
        num_sampled: torch.Tensor,
        num_rejected: Any,
        last_sampled: torch.Tensor,
        *_: Any,
        **__: Any,
    ) -> torch.Tensor:
        """Return what is there, beginning with what the head drafts if that is planned."""
        drafts = self._drafts[input_batch.idx_mapping]
        plan, self.plan, self.drafted = self.plan, None, 0
        if plan is None:
            return drafts
        try:
            # A prompt that is partly read has no new token; its row is not used.
            rows = (input_batch.cu_num_logits[:-1] + num_sampled - 1).clamp(min=0)
            states = plan.hidden.index_select(0, input_batch.logits_indices.index_select(0, rows))
            newest = last_sampled[input_batch.idx_mapping].flatten()
            drafts[:, : plan.tokens], _ = plan.head.propose(states, newest, plan.tokens)
            self.drafted = plan.tokens
        except Exception as exc:  # noqa: BLE001  # as in `Drafter.step`
            plan.fail(exc)
        return drafts


_vllms_speculator: Callable[..., Any] = vllms.init_speculator


def _speculator(vllm_config: Any, device: Any, states: Any) -> Any:
    if read_settings(vllm_config).native is None:
        return OwnSpeculator(states.draft_tokens)
    return _vllms_speculator(vllm_config, device, states)


def take_our_speculator() -> None:
    """Have this process's V2 runners ask us for their speculator."""
    vllms.init_speculator = _speculator
