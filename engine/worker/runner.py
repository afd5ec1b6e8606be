"""vLLM's model runner with our drafting: it learns from each step and proposes for the next.

vLLM asks for drafts right after a step, on every rank, and uses those of one rank; so only that one
drafts. Asked there, tokens are on the CPU whatever drafter vLLM itself runs.
"""

import dataclasses
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from vllm.distributed.parallel_state import get_pp_group, get_tp_group
from vllm.v1.outputs import DraftTokenIds
from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm.v1.worker.gpu_model_runner import PIN_MEMORY, GPUModelRunner

from engine.drafting import NATIVE, Beginning, Control, read_control
from engine.heads import DraftHead, HeadMemory
from engine.worker.head import HeadRun, StepStates, gather_tables, load_for_target
from engine.worker.prefill import note_prefill
from engine.worker.sampling import all_processors, decodes_plainly
from engine.worker.sourced import SourcedDraftTokenIds
from engine.worker.speculation import RankSpeculation

_Runner: Any = object


class _HybridDrafting(_Runner):
    """What both runners add to vLLM's; stands before it in the order of classes."""

    def __init__(self, vllm_config: Any, device: Any) -> None:
        super().__init__(vllm_config, device)
        drafts = get_pp_group().is_last_rank and get_tp_group().rank_in_group == 0
        self._speculation = RankSpeculation.start(vllm_config) if drafts else None
        self._sampled: Sequence[list[int]] = ()
        self._native_tokens = 0
        self._step_began = 0.0
        self._head: DraftHead | None = None
        self._head_memory: HeadMemory | None = None
        self._states: StepStates | None = None
        # Of the step: what was scheduled, and the states of all of its places.
        self._step: tuple[Any, Any] | None = None
        self._vocabulary = self.model_config.get_vocab_size()
        self._controls: dict[str, Control] = {}
        if not self.is_pooling_model:
            self.input_batch.logitsprocs = all_processors(
                vllm_config, self.device, pin_memory=PIN_MEMORY
            )

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Load the target, then its draft head where one is wanted."""
        super().load_model(*args, **kwargs)
        folder = self.vllm_config.additional_config["specgate"]["head"]
        if folder is None:
            return
        tables = gather_tables(self.model, self._vocabulary)
        if self._speculation is not None:
            self._head = load_for_target(
                Path(folder), tables, self.model_config, device=self.device
            )
            if self._head.config.window:
                self._head_memory = HeadMemory(
                    self._head, requests=self.max_num_reqs, device=self.device
                )

    def shutdown(self) -> None:
        if self._speculation is not None:
            self._speculation.stop()
        super().shutdown()

    def _update_states(self, scheduler_output: Any) -> Any:
        self._step_began = time.perf_counter()
        self._sampled = ()
        self._states = self._step = None
        self._native_tokens = scheduler_output.num_spec_tokens_to_schedule
        if self._speculation is not None:
            drafter = self._speculation.drafter
            for request in scheduler_output.finished_req_ids:
                self._controls.pop(request, None)
            drafter.end(scheduler_output.finished_req_ids, keep=True)
            # Its place in the batch is gone; should it come back, it begins again.
            drafter.end(scheduler_output.preempted_req_ids or (), keep=True)
            self._leave_head_memory(scheduler_output.finished_req_ids)
            self._leave_head_memory(scheduler_output.preempted_req_ids or ())
        return super()._update_states(scheduler_output)

    def _input_fits_in_drafter(self, common_attn_metadata: Any) -> bool:
        """Whether vLLM's own drafter may run.

        vLLM 0.32 says no for all when one request is near the model's length, and then schedules
        drafts of zeros for all. What limits each request stands in `_row`; a drafter that has a
        cache then proposes nothing, and only keeps its cache in step.
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
        aux_hidden_states: Any,
        spec_decode_metadata: Any,
        *args: Any,
    ) -> Any:
        """Let vLLM's own drafter propose as many tokens as fit; keep the states for our head."""
        if self._head is not None:
            verified = spec_decode_metadata
            drafted = None if verified is None else verified.num_draft_tokens
            self._states = StepStates(sample_hidden_states, drafted)
            self._step = scheduler_output, hidden_states
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
            aux_hidden_states,
            spec_decode_metadata,
            *args,
        )

    def _sample(self, logits: Any, spec_decode_metadata: Any) -> Any:
        """Draw tokens; where nothing is verified, with the ordinary sampler.

        It is faster, and vLLM 0.32's other one ends the engine on CPUs if a request has `top_k` and
        no request has a draft.
        """
        if spec_decode_metadata is not None and not any(spec_decode_metadata.num_draft_tokens):
            spec_decode_metadata = None
        return super()._sample(logits, spec_decode_metadata)

    def _bookkeeping_sync(self, *args: Any, **kwargs: Any) -> Any:
        output = super()._bookkeeping_sync(*args, **kwargs)
        self._sampled = output[3]
        return output

    def take_draft_token_ids(self) -> DraftTokenIds | None:
        """Return the next step's drafts and, beside them, where each is from."""
        proposed = super().take_draft_token_ids()
        if self._speculation is None or not self._sampled:
            return proposed
        began, began_cpu = time.perf_counter(), time.thread_time()
        requests = list(self.input_batch.req_ids)
        drafter = self._speculation.drafter
        head = None
        try:
            native = None
            if self._speculation.has_native and self._native_tokens and proposed is not None:
                native = proposed.draft_token_ids
            if drafter.counters.paused:
                self._clear_head_memory()
            elif self._head is not None and self._states is not None:
                if self._head_memory is not None:
                    self._note_prefill(self._head_memory, self._states)
                most = self._speculation.head_most
                head = HeadRun(
                    self._head,
                    most,
                    self._states,
                    requests,
                    self._sampled,
                    memory=self._head_memory,
                )
        except Exception as exc:  # noqa: BLE001  # as in `Drafter.step`
            drafts = drafter.fail(exc, requests)
            self._clear_head_memory()
        else:
            drafts = drafter.step(
                requests, self._sampled, self._beginning, native=native, head=head
            )
        native_tokens = None
        if self._speculation.has_native:
            native_tokens = drafter.native_tokens()
            if any(origin is not None and origin.first != NATIVE for origin in drafts.origins):
                # The probabilities that vLLM's drafter left belong to drafts that are not taken. A
                # token without any counts as certain, which is exact whoever drew it.
                self._draft_probs = self._draft_prob_req_ids = None
        head_seconds, head_cpu = (0.0, 0.0) if head is None else (head.seconds, head.cpu_seconds)
        self._speculation.observe_step(
            target=began - self._step_began,
            draft=time.perf_counter() - began - head_seconds,
            draft_cpu=time.thread_time() - began_cpu - head_cpu,
            head=head_seconds,
        )
        return SourcedDraftTokenIds(requests, drafts.tokens, drafts.origins, native_tokens)

    def _note_prefill(self, memory: HeadMemory, states: StepStates) -> None:
        """Have the head's memory take in what the step read of prompts, if it read any."""
        assert self._step is not None
        output, hidden = self._step
        if (
            output.total_num_scheduled_tokens == len(states)
            and not output.scheduled_new_reqs
            and all(self._sampled)
        ):
            return
        note_prefill(
            memory,
            hidden,
            self.input_batch,
            scheduled=output.num_scheduled_tokens,
            sampled=self._sampled,
            wants=self._wants_head,
            vocabulary=self._vocabulary,
        )

    def _leave_head_memory(self, requests: Collection[str]) -> None:
        """Have requests forgotten that ended or lost their place."""
        if self._head_memory is None:
            return
        try:
            self._head_memory.forget(requests)
        except Exception as exc:  # noqa: BLE001  # as in `Drafter.step`
            assert self._speculation is not None
            self._speculation.drafter.fail(exc, list(requests))
            self._clear_head_memory()

    def _clear_head_memory(self) -> None:
        """Forget rows that may be torn, or that others will not follow without a gap."""
        if self._head_memory is not None:
            self._head_memory.clear()

    def _beginning(self, request: str) -> Beginning:
        at = self.input_batch.req_id_to_index[request]
        new = len(self._sampled[at])
        before = int(self.input_batch.num_tokens_no_spec[at]) - new
        tokens = self.input_batch.token_ids_cpu[at, :before]
        return Beginning(
            np.ascontiguousarray(tokens, np.int32),
            self._control(request),
            left=self._limit(request) - len(self.requests[request].output_token_ids) + new,
        )

    def _limit(self, request: str) -> int:
        """Return how many tokens a request may get."""
        state = self.requests[request]
        limit = int(self.max_model_len - state.num_prompt_tokens)
        most = state.sampling_params.max_tokens
        return limit if most is None else min(limit, int(most))

    def _control(self, request: str) -> Control:
        """Return what a request asks for: read once, since a prediction in it may be long."""
        known = self._controls.get(request)
        if known is not None:
            return known
        params = self.requests[request].sampling_params
        control = read_control(params.extra_args, vocabulary=self._vocabulary)
        if decodes_plainly(params):
            control = dataclasses.replace(control, most=0)
        self._controls[request] = control
        return control

    def _wants_head(self, request: str) -> bool:
        control = self._control(request)
        return control.head and control.most != 0


class HybridCPUModelRunner(_HybridDrafting, CPUModelRunner):
    """The runner for CPUs."""


class HybridGPUModelRunner(_HybridDrafting, GPUModelRunner):
    """The runner for GPUs."""
