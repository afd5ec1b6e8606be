"""vLLM's V2 model runner with our hooks, which pass on what a step did (engine/worker/step.py).

vLLM's engine collects drafts when it has the tokens of a step (engine/worker/executor.py). It uses
those of one rank, so only that rank drafts. The scheduler sends the drafts of the next step to all
ranks; each writes them to where the runner reads drafts, which no rank has to agree on.

With async scheduling a further step may be in flight by then. What is kept of a step is therefore a
`_Step`, and nothing of the one in flight is read but what was scheduled (docs/vllm.md).
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from vllm.distributed.parallel_state import get_tp_group
from vllm.utils.torch_utils import async_tensor_h2d
from vllm.v1.outputs import DraftTokenIds
from vllm.v1.worker.cpu.model_runner import CPUModelRunner
from vllm.v1.worker.gpu import model_runner as vllms
from vllm.v1.worker.gpu.spec_decode.rejection_sampler import get_max_chunk_logits

from engine.drafting import HEAD, NATIVE, ON_DEVICE, Control, InFlight
from engine.heads import DraftHead
from engine.worker.head import PromptRecord, StepPositions, StepStates, note_prefill
from engine.worker.rows import most_verified_rows
from engine.worker.sampling import read_control_of
from engine.worker.scheduler import SourcedDraftTokenIds
from engine.worker.speculation import RankSpeculation, load_head
from engine.worker.step import SampledStep
from engine.worker.v2.graphs import capture_steps_of
from engine.worker.v2.requests import Request, Requests
from engine.worker.v2.speculator import HeadPlan, take_our_speculator
from engine.worker.v2.spot_check import CheckedSampler, SpotCheck, take_our_sampler

_Runner: Any = object


@dataclass(slots=True)
class _Step:
    """A step that has been launched.

    Attributes:
        scheduled: vLLM's `SchedulerOutput`.
        batch: vLLM's `InputBatch`.
        requests: Its requests by id, in the batch's order; None for one that nobody told us of.
        on_device: Tokens that vLLM's own drafter, or else the head, drafts in it for each sequence.
        hidden: Hidden states of all positions, for a head; overwritten by the next step.
        states: A copy of those of the positions that are sampled.
        output: vLLM's `AsyncOutput`, whose tokens come to the CPU meanwhile.
        checked: A number to be tested that comes to the CPU with the tokens; None in most steps.
        gone: Requests that ended, or left the batch, since it was launched.
    """

    scheduled: Any
    batch: Any
    requests: Mapping[str, Request | None]
    on_device: int
    hidden: Any
    states: StepStates | None
    output: Any
    checked: torch.Tensor | None
    gone: set[str] = field(default_factory=set)

    @property
    def drafted(self) -> Sequence[int]:
        """Verified draft tokens of each sequence."""
        counts = self.batch.num_draft_tokens_per_req
        return [0] * len(self.requests) if counts is None else list(counts.tolist())

    def sampled(self) -> list[list[int]]:
        """Return the new tokens of each sequence, once they are on the CPU."""
        self.output.copy_event.synchronize()
        counts: Sequence[int] = self.output.num_sampled_tokens_np.tolist()
        rows: Sequence[list[int]] = self.output.sampled_token_ids.tolist()
        return [row[:count] for row, count in zip(rows, counts, strict=True)]


class _HybridDrafting(_Runner):
    """What both runners add to vLLM's; comes first in the method resolution order.

    The hooks stand in the order of a step.
    """

    execute_model_state: Any
    req_states: Any
    speculator: Any

    def __init__(self, vllm_config: Any, device: Any) -> None:
        take_our_speculator()
        take_our_sampler()
        super().__init__(vllm_config, device)
        self.requests = Requests()
        group = get_tp_group()
        drafts = group.rank_in_group == 0
        self.speculation = RankSpeculation.start(vllm_config, _V2Batch(self)) if drafts else None
        self._spot_check: SpotCheck | None = None
        if self.speculation is not None:
            self._spot_check = SpotCheck(self.speculation.sampling, self.requests.get)
        # The other ranks could not read what the head drafts on this rank's device.
        self._is_alone = group.world_size == 1
        self._head_ahead: tuple[DraftHead, int] | None = None
        self.most_rows = most_verified_rows(vllm_config)
        self._scheduled: Any = None
        # Launched, and their tokens are not known yet: two at most.
        self._steps: deque[_Step] = deque()
        self._known: Any = None  # the step that is being drafted for

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Load the target, then its draft head if there is one."""
        super().load_model(*args, **kwargs)
        if isinstance(self.rejection_sampler, CheckedSampler):
            self.rejection_sampler.check = self._spot_check
        load_head(self.speculation, self.model, self.vllm_config, device=self.device)

    def warm_up_head(self) -> None:
        """Prepare the draft head for its first pass, once vLLM has warmed up the target."""
        if self.speculation is not None:
            self.speculation.warm_up_head(rows=self.max_num_reqs)

    def shutdown(self) -> None:
        if self.speculation is not None:
            self.speculation.stop()
        super().shutdown()

    @torch.inference_mode()
    def execute_model(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute a step, with the drafts that the scheduler sends."""
        if not kwargs.get("dummy_run"):
            self._begin(scheduler_output)
        return super().execute_model(scheduler_output, *args, **kwargs)

    def _begin(self, scheduled: Any) -> None:
        finished, preempted = scheduled.finished_req_ids, scheduled.preempted_req_ids or set()
        self._scheduled = scheduled
        for step in self._steps:
            step.gone |= finished | preempted
        if self.speculation is not None:
            self.speculation.step.begin(finished, preempted)
            self.requests.update(scheduled.scheduled_new_reqs, finished | preempted)
        drafts = {
            request: draft
            for request, draft in scheduled.scheduled_spec_decode_tokens.items()
            if draft[0] != ON_DEVICE
        }
        if drafts:
            slots = [self.req_states.req_id_to_index[request] for request in drafts]
            _scatter(self.req_states.draft_tokens, slots, list(drafts.values()))

    def sample(self, *args: Any, **kwargs: Any) -> Any:
        """Sample and verify; a draft that is not vLLM's own counts as certain.

        The probabilities that vLLM's drafter left, on each rank, belong to drafts that are not
        used. Tokens without probabilities count as certain, which is exact for any drafter.
        """
        if getattr(self._scheduled, "specgate_all_native", True):
            return super().sample(*args, **kwargs)
        with _without_probabilities(self.speculator):
            return super().sample(*args, **kwargs)

    def sample_tokens(self, grammar_output: Any) -> Any:
        """Sample the step; keep what drafting needs of it.

        Its tokens are copied to the CPU meanwhile.
        """
        state = self.execute_model_state
        # vLLM's own steps, at its start, do not come from our scheduler.
        if state is None or self.speculation is None or not _is_ours(self._scheduled):
            return super().sample_tokens(grammar_output)
        batch, hidden, states = state.input_batch, None, None
        if self.speculation.step.head is not None:
            hidden = state.hidden_states
            states = StepStates(hidden[batch.logits_indices], _verified(batch))
            if self._head_ahead is not None:
                fail = self.speculation.drafter.fail_head
                self.speculator.plan = HeadPlan(*self._head_ahead, hidden, fail)
        output = super().sample_tokens(grammar_output)
        requests = self.requests.find(batch.req_ids)
        if self.speculation.has_native:
            made = state.num_spec_tokens_to_schedule
        else:
            made = self.speculator.drafted
        checked = None if self._spot_check is None else self._spot_check.take()
        self._steps.append(
            _Step(self._scheduled, batch, requests, made, hidden, states, output, checked)
        )
        return output

    def take_draft_token_ids(self) -> DraftTokenIds | None:
        """Return the drafts that follow the oldest step in flight; none if that fails."""
        if self.speculation is None or not self._steps:
            return super().take_draft_token_ids()
        step = self._steps.popleft()
        requests = list(step.requests)
        try:
            return self._draft(self.speculation, step)
        except Exception as exc:  # noqa: BLE001  # as in `Drafter.step`
            self.speculation.drafter.fail(exc, requests)
            return DraftTokenIds(requests, [[] for _ in requests])

    def _draft(self, speculation: RankSpeculation, step: _Step) -> SourcedDraftTokenIds:
        self._known = step
        names, sampled, drafted = list(step.requests), step.sampled(), step.drafted
        self.requests.extend(step.requests, sampled)
        if step.checked is not None and self._spot_check is not None:
            self._spot_check.collect(step.checked)
        following, states = self._steps[0] if self._steps else None, step.states
        if step.gone:
            here = [at for at, name in enumerate(names) if name not in step.gone]
            names, sampled = [names[at] for at in here], [sampled[at] for at in here]
            drafted = [drafted[at] for at in here]
            states = None if states is None else states.of(here)
        in_flight = None
        if following is not None:
            verifies = dict(zip(following.requests, following.drafted, strict=True))
            drafter = NATIVE if speculation.has_native else HEAD
            in_flight = InFlight(
                [verifies.get(name, -1) for name in names],
                (drafter, following.on_device) if following.on_device else None,
            )
        native = native_tokens = None
        if speculation.has_native:
            if step.on_device and in_flight is None:
                table = self.req_states.draft_tokens
                native = table[step.batch.idx_mapping, : step.on_device].tolist()
            native_tokens = speculation.drafter.native_tokens()
        drafts = speculation.step.draft(
            SampledStep(
                names,
                sampled,
                drafted,
                step.scheduled.total_num_scheduled_tokens,
                has_new=bool(step.scheduled.scheduled_new_reqs),
                states=states,
                is_latest=following is None and not step.gone,
                next_step=step.scheduled.specgate_next_step,
                in_flight=in_flight,
            ),
            native,
        )
        if self._is_alone and not speculation.has_native:
            self._head_ahead = speculation.step.head_on_device()
        return SourcedDraftTokenIds(
            names,
            drafts.tokens,
            drafts.origins,
            native_tokens,
            ahead=speculation.step.goes_ahead,
        )

    def positions(self) -> StepPositions:
        """Return the positions of the step whose drafts are being made."""
        step = self._known
        requests = [self.requests[request] for request in step.requests]
        sampled = step.output.num_sampled_tokens_np.tolist()
        return StepPositions(
            list(step.requests),
            step.batch.num_computed_tokens_np.tolist(),
            step.batch.num_scheduled_tokens.tolist(),
            [len(one.tokens) - new for one, new in zip(requests, sampled, strict=True)],
            lambda row, begin, end: requests[row].tokens[begin:end],
        )

    def hidden_states(self) -> torch.Tensor:
        """Return the hidden states of that step's positions."""
        hidden: torch.Tensor = self._known.hidden
        return hidden

    def run_empty_step(self, tokens: int) -> None:
        """Compute a step of this many tokens without context, and as many logits as it can have."""
        with torch.inference_mode():
            hidden, _ = self._dummy_run(tokens, skip_eplb=True)
            self.model.compute_logits(hidden[: min(tokens, self.most_rows)])
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


class _V2Batch:
    """What we read of a runner's requests (`engine.worker.step.BatchView`)."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self._vocabulary = runner.model_config.get_vocab_size()

    def text(self, request: str) -> NDArray[np.int32]:
        tokens: NDArray[np.int32] = self._runner.requests.text(request)
        return tokens

    def left(self, request: str) -> int:
        runner = self._runner
        left: int = runner.requests.left(request, longest=runner.max_model_len)
        return left

    def control(self, request: str) -> Control:
        params = self._runner.requests[request].params
        return read_control_of(params, vocabulary=self._vocabulary)

    def note_prompts(self, memory: PromptRecord, wants: Callable[[str], bool]) -> None:
        runner = self._runner
        note_prefill(
            memory,
            runner.hidden_states(),
            runner.positions(),
            wants=wants,
            vocabulary=self._vocabulary,
            reused=runner.device.type != "cpu",
        )


class HybridCPUModelRunner(_HybridDrafting, CPUModelRunner):
    """The speculating runner for CPUs that have a Triton."""


class HybridGPUModelRunner(_HybridDrafting, vllms.GPUModelRunner):
    """The speculating runner for GPUs."""

    def __init__(self, vllm_config: Any, device: Any) -> None:
        super().__init__(vllm_config, device)
        capture_steps_of(self)

    def _dummy_sampler_run(self, hidden_states: Any) -> Any:
        """Let vLLM's memory profile see the largest step that can be verified.

        vLLM profiles one row of logits for each request; a step of ours may have more. Verification
        copies them to float32 in chunks.
        """
        states = hidden_states[:1].expand(max(len(hidden_states), self.most_rows), -1)
        logits = self.model.compute_logits(states)
        chunk = logits[: get_max_chunk_logits(self.vocab_size)].float()
        found = super()._dummy_sampler_run(hidden_states)
        del logits, chunk  # held until here, so that they count
        return found


def _verified(batch: Any) -> list[int] | None:
    """Return the number of verified draft tokens by sequence; None if there were none."""
    counts = batch.num_draft_tokens_per_req
    return None if counts is None else list(counts.tolist())


def _is_ours(scheduled: Any) -> bool:
    return hasattr(scheduled, "specgate_next_step")


def _scatter(table: torch.Tensor, slots: Sequence[int], drafts: Sequence[Sequence[int]]) -> None:
    """Write drafts to rows of a table, shape (slots, longest draft); does not wait for the device.

    The rest of a row gets token 0: these ids are read as input although they are not verified.
    """
    lengths = np.fromiter(map(len, drafts), np.int64, len(drafts))
    width = int(lengths.max())
    rows = np.zeros((len(drafts), width), np.int64)
    filled = np.fromiter(chain.from_iterable(drafts), np.int64, int(lengths.sum()))
    rows[np.arange(width) < lengths[:, None]] = np.maximum(filled, 0)  # -1: a grammar forbids it
    at = async_tensor_h2d(np.array(slots), device=table.device)
    tokens = async_tensor_h2d(rows, device=table.device)
    table[:, :width].index_copy_(0, at, tokens)


@contextmanager
def _without_probabilities(speculator: Any) -> Iterator[None]:
    kept, speculator.draft_logits = speculator.draft_logits, None
    try:
        yield
    finally:
        speculator.draft_logits = kept
