"""vLLM's V1 model runner with our hooks, which pass on what a step did (engine/worker/step.py).

vLLM collects drafts after each step on every rank but uses those of one rank, so only that rank
drafts. At that point sampled tokens are on the CPU whichever drafter vLLM runs.
"""

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from vllm.distributed.parallel_state import get_tp_group
from vllm.v1.outputs import DraftTokenIds
from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm.v1.worker.gpu_model_runner import PIN_MEMORY, GPUModelRunner

from engine.drafting import Control
from engine.worker.head import PromptRecord, StepPositions, StepStates, note_prefill
from engine.worker.rows import most_verified_rows
from engine.worker.sampling import all_processors, read_control_of
from engine.worker.scheduler import SourcedDraftTokenIds
from engine.worker.speculation import RankSpeculation, load_head
from engine.worker.step import NOTHING_KNOWN, SampledStep
from engine.worker.v1.spot_check import Place, SpotCheck
from engine.worker.v1.verification import take_likeliest, verify, wants_only_tokens

_log = logging.getLogger(__name__)

_Runner: Any = object


class NoDrafts:
    """The drafter that vLLM gets when none of its own is configured (`method: custom_class`)."""

    def __init__(self, vllm_config: Any) -> None:
        pass

    def load_model(self, target: Any) -> None:
        """Do nothing."""

    def propose(self, sampled_token_ids: list[list[int]], *_: Any, **__: Any) -> list[list[int]]:
        """Return an empty draft for each request; ours are made when vLLM collects them."""
        return [[] for _ in sampled_token_ids]


class _HybridDrafting(_Runner):
    """What both runners add to vLLM's; comes first in the method resolution order.

    The hooks stand in the order of a step.
    """

    _draft_probs: Any
    _draft_prob_req_ids: Any

    def __init__(self, vllm_config: Any, device: Any) -> None:
        super().__init__(vllm_config, device)
        batch = _V1Batch(self)
        drafts = get_tp_group().rank_in_group == 0
        self.speculation = RankSpeculation.start(vllm_config, batch) if drafts else None
        self._spot_check = SpotCheck(self.speculation.sampling) if self.speculation else None
        self.most_rows = most_verified_rows(vllm_config)
        self._scheduled: Any = None
        self._sampled: Sequence[list[int]] = ()
        self._verified: Sequence[int] | None = None  # None if no draft was scheduled
        self._native_tokens = 0
        # For our head: of all positions, and of those that were sampled.
        self._hidden: Any = None
        self._states: StepStates | None = None
        if not self.is_pooling_model:
            self.input_batch.logitsprocs = all_processors(
                vllm_config, self.device, pin_memory=PIN_MEMORY
            )

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Load the target, then its draft head if there is one."""
        super().load_model(*args, **kwargs)
        load_head(self.speculation, self.model, self.vllm_config, device=self.device)

    def warm_up_head(self) -> None:
        """Prepare the draft head for its first pass, once vLLM has warmed up the target."""
        if self.speculation is not None:
            self.speculation.warm_up_head(rows=self.max_num_reqs)

    def shutdown(self) -> None:
        if self.speculation is not None:
            self.speculation.stop()
        super().shutdown()

    def _update_states(self, scheduler_output: Any) -> Any:
        self._scheduled = scheduler_output
        self._sampled = ()
        self._verified = self._hidden = self._states = None
        self._native_tokens = scheduler_output.num_spec_tokens_to_schedule
        if not getattr(scheduler_output, "specgate_all_native", True):
            # Probabilities left by vLLM's drafter, on each rank, belong to drafts that are not
            # used. Tokens without probabilities count as certain, which is exact for any drafter.
            self._draft_probs = self._draft_prob_req_ids = None
        if self.speculation is not None:
            self.speculation.step.begin(
                scheduler_output.finished_req_ids, scheduler_output.preempted_req_ids or ()
            )
        return super()._update_states(scheduler_output)

    def _sample(self, logits: Any, spec_decode_metadata: Any) -> Any:
        """Sample tokens; if nothing is verified, with the ordinary sampler or our own.

        The ordinary sampler is faster. Also, vLLM 0.32's rejection sampler crashes the engine on
        CPUs if a request has `top_k` and no request has a draft.
        """
        if spec_decode_metadata is not None:
            self._verified = spec_decode_metadata.num_draft_tokens
        drafted = spec_decode_metadata if any(self._verified or ()) else None
        place = self._choose_place(logits, drafted)
        taken = self._sample_ourselves(logits, drafted)
        sampled = super()._sample(logits, drafted) if taken is None else taken
        if place is not None and self._spot_check is not None:
            self._spot_check.end(place, sampled.sampled_token_ids)
        return sampled

    def _choose_place(self, logits: Any, drafted: Any) -> Place | None:
        """Return a place whose token is to be tested; None in most steps, and on GPUs.

        Where vLLM's drafter has left probabilities, a draft is accepted by the quotient of both.
        """
        if drafted is None or self._spot_check is None or logits.device.type != "cpu":
            return None
        if self._draft_probs is not None or self.rejection_sampler.synthetic_mode:
            return None
        return self._spot_check.begin(drafted, logits, self.input_batch.sampling_metadata)

    def _sample_ourselves(self, logits: Any, drafted: Any) -> Any:
        """Sample and verify with our own code; None if vLLM's is needed."""
        sampling = self.input_batch.sampling_metadata
        if logits.device.type != "cpu" or not wants_only_tokens(sampling):
            return None
        if drafted is None:
            return take_likeliest(logits) if sampling.all_greedy else None
        if self._draft_probs is not None or self.rejection_sampler.synthetic_mode:
            return None
        try:
            return verify(drafted, logits, sampling, self.sampler)
        except Exception as exc:  # noqa: BLE001  # as in `Drafter.step`; logits are unchanged
            if self.speculation is None:
                # Ends when the drafting rank has failed as often and pauses drafting.
                _log.error("verification failed on a rank that does not draft", exc_info=exc)
            else:
                self.speculation.drafter.fail(exc, list(self.input_batch.req_ids))
            return None

    def _bookkeeping_sync(self, *args: Any, **kwargs: Any) -> Any:
        output = super()._bookkeeping_sync(*args, **kwargs)
        self._sampled = output[3]
        return output

    def _input_fits_in_drafter(self, common_attn_metadata: Any) -> bool:
        """Whether vLLM's own drafter may run.

        If one request is near the model's maximum length, vLLM 0.32 refuses for all requests and
        then schedules drafts of zeros. Each request's own limit is in `_V1Batch.left`. A drafter
        with a KV cache then proposes nothing and only keeps its cache up to date.
        """
        if common_attn_metadata is None:
            return False
        if not self.speculative_config.uses_draft_kv_cache():
            return True
        room = self.effective_drafter_max_model_len - common_attn_metadata.max_seq_len
        if room < self._native_tokens:
            self._native_tokens = 0
        return bool(room > 0)

    def propose_draft_token_ids(
        self,
        scheduler_output: Any,
        sampled_token_ids: Any,
        sampling_metadata: Any,
        hidden_states: Any,
        sample_hidden_states: Any,
        *args: Any,
    ) -> Any:
        """Run vLLM's own drafter for as many tokens as fit; keep the states for our head."""
        if self.speculation is not None and self.speculation.step.head is not None:
            self._hidden = hidden_states
            self._states = StepStates(sample_hidden_states, self._verified)
        if scheduler_output.num_spec_tokens_to_schedule != self._native_tokens:
            scheduler_output = dataclasses.replace(
                scheduler_output, num_spec_tokens_to_schedule=self._native_tokens
            )
        return super().propose_draft_token_ids(
            scheduler_output,
            sampled_token_ids,
            sampling_metadata,
            hidden_states,
            sample_hidden_states,
            *args,
        )

    def take_draft_token_ids(self) -> DraftTokenIds | None:
        """Return the next step's drafts, with the source of each."""
        proposed = super().take_draft_token_ids()
        if self.speculation is None or not self._sampled:
            return proposed
        requests = list(self.input_batch.req_ids)
        has_native = self.speculation.has_native
        native = None
        if has_native and self._native_tokens and proposed is not None:
            native = proposed.draft_token_ids
        sampled = SampledStep(
            requests,
            self._sampled,
            self._verified or [0] * len(requests),
            self._scheduled.total_num_scheduled_tokens,
            has_new=bool(self._scheduled.scheduled_new_reqs),
            states=self._states,
            next_step=getattr(self._scheduled, "specgate_next_step", NOTHING_KNOWN),
        )
        drafts = self.speculation.step.draft(sampled, native)
        native_tokens = self.speculation.drafter.native_tokens() if has_native else None
        return SourcedDraftTokenIds(requests, drafts.tokens, drafts.origins, native_tokens)

    @torch.inference_mode()
    def run_empty_step(self, tokens: int) -> None:
        """Compute a step of this many tokens without context, and as many logits as it can have."""
        hidden, _ = self._dummy_run(tokens, skip_eplb=True)
        self.model.compute_logits(hidden[: min(tokens, self.most_rows)])
        self._sync_device()


class _V1Batch:
    """What we read of a runner's requests (`engine.worker.step.BatchView`)."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self._vocabulary = runner.model_config.get_vocab_size()

    def text(self, request: str) -> NDArray[np.int32]:
        batch = self._runner.input_batch
        at = batch.req_id_to_index[request]
        tokens: NDArray[np.int32] = batch.token_ids_cpu[at, : int(batch.num_tokens_no_spec[at])]
        return tokens

    def left(self, request: str) -> int:
        state = self._runner.requests[request]
        limit = int(self._runner.max_model_len - state.num_prompt_tokens)
        most = state.sampling_params.max_tokens
        if most is not None:
            limit = min(limit, int(most))
        return limit - len(state.output_token_ids)

    def control(self, request: str) -> Control:
        params = self._runner.requests[request].sampling_params
        return read_control_of(params, vocabulary=self._vocabulary)

    def note_prompts(self, memory: PromptRecord, wants: Callable[[str], bool]) -> None:
        runner, batch = self._runner, self._runner.input_batch
        requests, sampled = batch.req_ids, runner._sampled
        scheduled = runner._scheduled.num_scheduled_tokens
        # As lists: reading numpy scalars one by one would cost more than all the rest.
        known = batch.num_tokens_no_spec[: len(requests)].tolist()
        positions = StepPositions(
            requests,
            batch.num_computed_tokens_cpu[: len(requests)].tolist(),
            [scheduled[request] for request in requests],
            [all_tokens - len(new) for all_tokens, new in zip(known, sampled, strict=True)],
            lambda row, begin, end: batch.token_ids_cpu[row, begin:end].tolist(),
        )
        note_prefill(
            memory,
            runner._hidden,
            positions,
            wants=wants,
            vocabulary=self._vocabulary,
            reused=runner.device.type != "cpu",
        )


class HybridCPUModelRunner(_HybridDrafting, CPUModelRunner):
    """The speculating runner for CPUs."""


class HybridGPUModelRunner(_HybridDrafting, GPUModelRunner):
    """The speculating runner for GPUs."""

    def _dummy_sampler_run(self, hidden_states: Any) -> Any:
        """Let vLLM's memory profile see the largest step that can be verified.

        vLLM 0.32 verifies one draft token for each of these states, ours may be more. Rows of
        logits are the largest tensors of a step.
        """
        drafted = max(len(hidden_states), self.most_rows - self.max_num_reqs)
        return super()._dummy_sampler_run(hidden_states[:1].expand(drafted, -1))
