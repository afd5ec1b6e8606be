"""vLLM's model runner with our drafting: learns from each step and drafts for the next one.

vLLM collects drafts after each step on every rank but uses those of one rank, so only that rank
drafts. At that point sampled tokens are on the CPU whichever drafter vLLM runs.
"""

import dataclasses
import logging
import math
import platform
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from vllm import __version__ as vllm_version
from vllm.distributed.parallel_state import get_pp_group, get_tp_group
from vllm.v1.outputs import DraftTokenIds
from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm.v1.worker.gpu_model_runner import PIN_MEMORY, GPUModelRunner

from engine.drafting import NATIVE, Beginning, Control, read_control
from engine.heads import DraftHead, HeadMemory
from engine.policy import Load
from engine.worker.head import HeadRun, StepStates, gather_tables, load_for_target
from engine.worker.linear import linear_kernel
from engine.worker.prefill import note_prefill
from engine.worker.sampling import all_processors, decodes_plainly, temperature_of
from engine.worker.sourced import SourcedDraftTokenIds
from engine.worker.speculation import RankSpeculation
from engine.worker.step_profile import ProfileFile, measure, sizes_up_to
from engine.worker.steps import Backlog, Step, StepTimer, next_load
from engine.worker.verification import verify, wants_only_tokens

_log = logging.getLogger(__name__)

_Runner: Any = object
_NO_BACKLOG = Backlog()

_DECODING = Load(0)
"""The load of a step that only decodes; the drafter fills in its sequences."""

_PROFILE_SECONDS = 10.0
"""Time limit of profiling steps at start; SmolLM2 on two cores takes 3 s."""


class _HybridDrafting(_Runner):
    """What both runners add to vLLM's; comes first in the method resolution order."""

    _draft_probs: Any

    def __init__(self, vllm_config: Any, device: Any) -> None:
        super().__init__(vllm_config, device)
        drafts = get_pp_group().is_last_rank and get_tp_group().rank_in_group == 0
        self._speculation = RankSpeculation.start(vllm_config) if drafts else None
        self._sampled: Sequence[list[int]] = ()
        self._native_tokens = 0
        self._step_began = 0.0
        self._timer = StepTimer()
        self._scheduled: Any = None
        self._head: DraftHead | None = None
        self._head_memory: HeadMemory | None = None
        self._states: StepStates | None = None
        # What was scheduled for the current step, and the hidden states of all its positions.
        self._step: tuple[Any, Any] | None = None
        self._verified_tokens = 0  # draft tokens verified in the step just computed
        self._reuses_states = self.device.type != "cpu"
        self._vocabulary = self.model_config.get_vocab_size()
        self._controls: dict[str, Control] = {}
        if not self.is_pooling_model:
            self.input_batch.logitsprocs = all_processors(
                vllm_config, self.device, pin_memory=PIN_MEMORY
            )

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Load the target, then its draft head if there is one."""
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

    def profile_steps(self) -> None:
        """Measure the times of steps, unless they are configured or known for this machine.

        All ranks compute the same steps, and the drafting rank decides whether to; ranks that
        disagreed would wait for each other forever. For the same reason several ranks apply no
        time limit, and data-parallel engines, which compute together, do not profile. Nor do
        pipeline stages, since no rank sees a whole step.
        """
        ours = self.vllm_config.additional_config["specgate"]
        alone = self.vllm_config.parallel_config.data_parallel_size == 1
        whole = get_pp_group().world_size == 1
        if ours["speculation"]["step_cost"] is not None or not alone or not whole:
            return
        file = ProfileFile(Path(ours["profiles"]), self._profile_facts())
        known = file.load() if self._speculation is not None else None
        points = get_tp_group().broadcast_object(known, src=0)
        if points is None:
            most = self.max_num_reqs * (1 + self.num_spec_tokens)
            measured = measure(
                self._run_empty_step,
                sizes_up_to(min(most, self.max_num_tokens)),
                budget_seconds=_PROFILE_SECONDS if get_tp_group().world_size == 1 else math.inf,
            )
            points = measured.points
            if self._speculation is not None and measured.is_steady:
                file.save(points)
        if self._speculation is not None:
            self._speculation.believe(points)

    def _profile_facts(self) -> dict[str, str | int]:
        model, vllm = self.model_config, self.vllm_config
        kind = self.device.type
        return {
            "model": str(model.model),
            "dtype": str(model.dtype),
            "quantization": str(model.quantization),
            "ranks": vllm.parallel_config.world_size,
            "eager": int(model.enforce_eager),
            "most_tokens": min(self.max_num_reqs * (1 + self.num_spec_tokens), self.max_num_tokens),
            "vllm": str(vllm_version),
            "kernel": linear_kernel(model.dtype),
            "machine": platform.processor() or platform.machine(),
            "device": torch.cuda.get_device_name(self.device) if kind == "cuda" else kind,
            "threads": torch.get_num_threads(),
        }

    @torch.inference_mode()
    def _run_empty_step(self, tokens: int) -> None:
        """Compute a step of this many tokens without context, including all logits."""
        hidden, _ = self._dummy_run(tokens, skip_eplb=True)
        self.model.compute_logits(hidden[:tokens])
        self._sync_device()

    def shutdown(self) -> None:
        if self._speculation is not None:
            self._speculation.stop()
        super().shutdown()

    def _update_states(self, scheduler_output: Any) -> Any:
        self._step_began = time.perf_counter()
        self._scheduled = scheduler_output
        self._sampled = ()
        self._states = self._step = None
        self._verified_tokens = 0
        self._native_tokens = scheduler_output.num_spec_tokens_to_schedule
        if self._speculation is not None:
            drafter = self._speculation.drafter
            finished = scheduler_output.finished_req_ids
            # Preempted requests have left the batch; if they return, they begin again.
            preempted = scheduler_output.preempted_req_ids or set()
            measured = self._timer.begin(self._step_began, finished | preempted)
            if measured is not None:
                self._speculation.observe_whole_step(*measured)
            for request in finished:
                self._controls.pop(request, None)
            for gone in (finished, preempted):
                drafter.end(gone, keep=True)
                self._leave_head_memory(gone)
        return super()._update_states(scheduler_output)

    def _input_fits_in_drafter(self, common_attn_metadata: Any) -> bool:
        """Whether vLLM's own drafter may run.

        If one request is near the model's maximum length, vLLM 0.32 refuses for all requests and
        then schedules drafts of zeros. Each request's own limit is applied in `_beginning`. A
        drafter with a KV cache then proposes nothing and only keeps its cache up to date.
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
        """Run vLLM's own drafter for as many tokens as fit; keep the states for our head."""
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
        """Sample tokens; if nothing is verified, with the ordinary sampler.

        The ordinary sampler is faster. Also, vLLM 0.32's rejection sampler crashes the engine on
        CPUs if a request has `top_k` and no request has a draft.
        """
        if spec_decode_metadata is not None:
            self._verified_tokens = sum(spec_decode_metadata.num_draft_tokens)
        if not self._verified_tokens:
            spec_decode_metadata = None
        else:
            verified = self._verify(logits, spec_decode_metadata)
            if verified is not None:
                return verified
        return super()._sample(logits, spec_decode_metadata)

    def _verify(self, logits: Any, drafted: Any) -> Any:
        """Verify drafts with our own code; None if vLLM's is needed."""
        sampling = self.input_batch.sampling_metadata
        if (
            logits.device.type != "cpu"
            or self._draft_probs is not None
            or self.rejection_sampler.synthetic_mode
            or not wants_only_tokens(sampling)
        ):
            return None
        try:
            return verify(drafted, logits, sampling, self.sampler)
        except Exception as exc:  # noqa: BLE001  # as in `Drafter.step`; logits are unchanged
            if self._speculation is None:
                # Ends when the drafting rank has failed as often and pauses drafting.
                _log.error("verification failed on a rank that does not draft", exc_info=exc)
            else:
                self._speculation.drafter.fail(exc, list(self.input_batch.req_ids))
            return None

    def _bookkeeping_sync(self, *args: Any, **kwargs: Any) -> Any:
        output = super()._bookkeeping_sync(*args, **kwargs)
        self._sampled = output[3]
        return output

    def take_draft_token_ids(self) -> DraftTokenIds | None:
        """Return the next step's drafts, with the source of each."""
        proposed = super().take_draft_token_ids()
        if self._speculation is None or not self._sampled:
            return proposed
        began, began_cpu = time.perf_counter(), time.thread_time()
        requests = list(self.input_batch.req_ids)
        drafter = self._speculation.drafter
        head = None
        try:
            load = self._next_load()
            native = None
            if self._speculation.has_native and self._native_tokens and proposed is not None:
                native = proposed.draft_token_ids
            head = self._head_run(requests, reads=bool(load.read_tokens))
        except Exception as exc:  # noqa: BLE001  # as in `Drafter.step`
            drafts = drafter.fail(exc, requests)
            self._clear_head_memory()
        else:
            drafts = drafter.step(
                requests, self._sampled, self._beginning, native=native, head=head, load=load
            )
        native_tokens = None
        if self._speculation.has_native:
            native_tokens = drafter.native_tokens()
            if any(origin is not None and origin.first != NATIVE for origin in drafts.origins):
                # Probabilities left by vLLM's drafter would belong to drafts that are not used.
                # Tokens without probabilities count as certain, which is exact for any drafter.
                self._draft_probs = self._draft_prob_req_ids = None
        head_seconds, head_cpu = (0.0, 0.0) if head is None else (head.seconds, head.cpu_seconds)
        if head is not None and head.sequences:
            drafter.gate.observe_head(head.sequences, head_seconds)
        if drafts.context_tokens is not None:
            tokens = self._scheduled.total_num_scheduled_tokens
            verifying = self._decoding() if self._verified_tokens else 0
            self._timer.end(Step(requests, tokens, drafts.context_tokens, head_seconds, verifying))
        self._speculation.observe_step(
            target=began - self._step_began,
            draft=time.perf_counter() - began - head_seconds,
            draft_cpu=time.thread_time() - began_cpu - head_cpu,
            head=head_seconds,
        )
        return SourcedDraftTokenIds(requests, drafts.tokens, drafts.origins, native_tokens)

    def _head_run(self, requests: Sequence[str], *, reads: bool) -> HeadRun | None:
        """Return a pass of the head for the drafter to call; the head's memory records the step.

        Args:
            requests: The requests of the step.
            reads: Whether the step computed prompt positions beyond those of the sampled tokens.
        """
        assert self._speculation is not None
        if self._speculation.drafter.counters.paused:
            self._clear_head_memory()
            return None
        if self._head is None or self._states is None:
            return None
        reads = reads or bool(self._scheduled.scheduled_new_reqs) or not all(self._sampled)
        if reads and self._head_memory is not None:
            self._note_prefill(self._head_memory)
        return HeadRun(
            self._head,
            self._speculation.head_most,
            self._states,
            requests,
            self._sampled,
            memory=self._head_memory,
        )

    def _decoding(self) -> int:
        """Return the number of sequences that got tokens."""
        return len(self._sampled) - self._sampled.count([])

    def _next_load(self) -> Load:
        """Return what is known of the next step, for choosing its drafts.

        The drafter adds the number of sequences and the tokens in their caches.
        """
        output, backlog = self._scheduled, getattr(self._scheduled, "specgate_backlog", _NO_BACKLOG)
        sequences = self._decoding()
        read = (
            output.total_num_scheduled_tokens
            - len(output.num_scheduled_tokens)
            - self._verified_tokens
        )
        has_read_all = sequences == len(self._sampled)
        if has_read_all and not read and backlog == _NO_BACKLOG:
            return _DECODING
        unread, context_tokens = ([], 0) if has_read_all else self._unread()
        return next_load(
            unread,
            context_tokens,
            backlog,
            budget_tokens=self.scheduler_config.max_num_batched_tokens,
            sequences=sequences,
            read_tokens=read,
        )

    def _unread(self) -> tuple[list[int], int]:
        """Return the tokens left of each partly read prompt, and the tokens cached of those."""
        batch, scheduled = self.input_batch, self._scheduled.num_scheduled_tokens
        unread, context_tokens = [], 0
        for at, tokens in enumerate(self._sampled):
            if not tokens:
                computed = int(batch.num_computed_tokens_cpu[at])
                computed += scheduled.get(batch.req_ids[at], 0)
                unread.append(int(batch.num_prompt_tokens[at]) - computed)
                context_tokens += computed
        return [left for left in unread if left > 0], context_tokens

    def _note_prefill(self, memory: HeadMemory) -> None:
        """Have the head's memory record the step's prompt positions."""
        assert self._step is not None
        output, hidden = self._step
        note_prefill(
            memory,
            hidden,
            self.input_batch,
            scheduled=output.num_scheduled_tokens,
            sampled=self._sampled,
            wants=self._wants_head,
            vocabulary=self._vocabulary,
            reused=self._reuses_states,
        )

    def _leave_head_memory(self, requests: Collection[str]) -> None:
        """Drop finished and preempted requests from the head's memory."""
        if self._head_memory is None:
            return
        try:
            self._head_memory.forget(requests)
        except Exception as exc:  # noqa: BLE001  # as in `Drafter.step`
            assert self._speculation is not None
            self._speculation.drafter.fail(exc, list(requests))
            self._clear_head_memory()

    def _clear_head_memory(self) -> None:
        """Drop entries that may be incomplete, or that later ones would not follow directly."""
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
        """Return the maximum number of output tokens of a request."""
        state = self.requests[request]
        limit = int(self.max_model_len - state.num_prompt_tokens)
        most = state.sampling_params.max_tokens
        return limit if most is None else min(limit, int(most))

    def _control(self, request: str) -> Control:
        """Return a request's drafting options, parsed once: a prediction in it may be long."""
        known = self._controls.get(request)
        if known is not None:
            return known
        params = self.requests[request].sampling_params
        control = self._controls[request] = read_control(
            params.extra_args,
            vocabulary=self._vocabulary,
            temperature=temperature_of(params),
            plain=decodes_plainly(params),
        )
        return control

    def _wants_head(self, request: str) -> bool:
        control = self._control(request)
        return control.head and control.most != 0


class HybridCPUModelRunner(_HybridDrafting, CPUModelRunner):
    """The speculating runner for CPUs."""


class HybridGPUModelRunner(_HybridDrafting, GPUModelRunner):
    """The speculating runner for GPUs."""
