"""vLLM's scheduler, told the source of each draft; it counts accepted tokens by source.

With each step it tells the rank that drafts what it knows of the next one. With async scheduling it
either waits for a step's tokens before it schedules the next one, or does not, as that rank says.
"""

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.metrics.stats import RequestSpecDecodeMetrics
from vllm.v1.outputs import DraftTokenIds

from engine.drafting import NATIVE, Origin
from engine.worker.executor import collect_drafts, end_model_first
from engine.worker.metrics import AcceptanceMetrics
from engine.worker.options import NATIVE_IN_STEP
from engine.worker.periodic import Periodic
from engine.worker.recent import Recent
from engine.worker.report import ReportPart, report_folder
from engine.worker.resume import ResumingScheduler
from engine.worker.rows import most_verified_rows
from engine.worker.speculation import read_settings
from engine.worker.step import NextStep
from engine.worker.trace import add_accepted, is_asked

_log = logging.getLogger(__name__)
_UNNAMED = Origin(NATIVE)


@dataclass
class SourcedDraftTokenIds(DraftTokenIds):
    """vLLM's drafts by request, with what our scheduler needs to know of them.

    Attributes:
        origins: Source of each draft; None for no draft.
        native_tokens: How many tokens vLLM's own drafter proposes in the next step; None if there
            is no such drafter. The scheduler tells all ranks, so that they run the same passes.
        ahead: Whether the next steps are to be launched before the tokens of the last one are
            known. Only with async scheduling.
    """

    origins: Sequence[Origin | None] = ()
    native_tokens: int | None = None
    ahead: bool = False


class SourcedMetrics(RequestSpecDecodeMetrics):
    """vLLM's counts of a request; each step's entry also encodes the source of its draft."""

    # The underscore makes msgspec leave it out of what is sent to the API server.
    _origin = _UNNAMED

    def expect(self, origin: Origin) -> None:
        """Set the source of the draft that the next `observe` counts."""
        self._origin = origin

    def observe(self, num_draft_tokens: int, num_accepted: int, detailed: bool = False) -> None:
        """Count a step; `Origin.encode` defines the entry in `per_step_drafted`."""
        super().observe(num_draft_tokens, num_accepted, detailed)
        if detailed:
            self.per_step_drafted[-1] = self._origin.encode(num_draft_tokens)


# vLLM's class is named as well, for `scripts/vllm_contract.py`, which reads each file alone.
class HybridScheduler(ResumingScheduler, AsyncScheduler):
    """Passes drafts on as vLLM does, and remembers the source of each until it is verified.

    vLLM's engine schedules synchronously with it, too: then no step is ever in flight.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        end_model_first()
        collect_drafts()
        self._origins: dict[str, Origin] = {}  # of drafts that are not scheduled yet
        self._verified: dict[str, Origin] = {}  # of the step whose output is read
        self._traced: set[str] = set()
        self._accepted: dict[str, tuple[Origin, int]] = {}  # of traced requests, in that step
        self._steps_in_flight = 0
        self._is_known = False
        self._ahead = False
        if self.vllm_config.scheduler_config.async_scheduling:
            rule = read_settings(self.vllm_config).launch
            _log.info("async scheduling is on; engine.speculation.launch is %s", rule)
        else:
            _log.info("async scheduling is off: each step waits for the tokens of the last one")
        self._acceptance = AcceptanceMetrics()
        self._recent = Recent[tuple[str, str]]()
        rank = self.vllm_config.parallel_config.data_parallel_index
        self._report = ReportPart(report_folder(), "acceptance", rank)
        self._publishing = Periodic(self._publish, seconds=1.0, name="acceptance metrics")
        # Without this table vLLM 0.32 gives a request with a single token to compute (because its
        # prompt is cached) a draft of placeholders, which are all verified and rejected.
        every = [self.num_spec_tokens] * (self.scheduler_config.max_num_seqs + 1)
        self.dynamic_sd_lookup: list[int] = vars(self)["dynamic_sd_lookup"] or every
        self._native_tokens: int | None = None
        self._most_rows = most_verified_rows(self.vllm_config)
        native = read_settings(self.vllm_config).native
        if native is not None and self.vllm_config.speculative_config.uses_draft_kv_cache():
            if self.vllm_config.parallel_config.data_parallel_size > 1:
                # vLLM, too, fixes the number of drafted tokens for such engines.
                raise ValueError(NATIVE_IN_STEP)
            self._native_tokens = native.most

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Schedule a step; tell all ranks the native draft length and what comes next."""
        output = super().schedule(*args, **kwargs)
        if self._native_tokens is not None:
            output.num_spec_tokens_to_schedule = self._native_tokens
        output.specgate_next_step = self._next_step(output)
        origins = {
            request: self._origins.pop(request, _UNNAMED)
            for request in output.scheduled_spec_decode_tokens
        }
        output.specgate_origins = origins
        output.specgate_all_native = all(origin == _UNNAMED for origin in origins.values())
        if output.total_num_scheduled_tokens:
            self._steps_in_flight += 1
        return output

    def has_requests(self) -> bool:
        """Tell vLLM's engine whether to schedule now; not while it is to wait for a step's tokens.

        The engine then takes the output of the step in flight.
        """
        if self._steps_in_flight and not self.may_go_ahead():
            return False
        has: bool = super().has_requests()
        return has

    def may_go_ahead(self) -> bool:
        """Tell whether a step may be scheduled before the tokens of the last one are known."""
        # A grammar allows or forbids tokens by those before them.
        return self._ahead and not any(one.use_structured_output for one in self.running)

    def take_known(self) -> bool:
        """Tell whether a step's tokens have become known since the last call."""
        known, self._is_known = self._is_known, False
        return known

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Take in what a step has sampled."""
        self._verified = scheduler_output.specgate_origins
        if scheduler_output.total_num_scheduled_tokens:
            self._steps_in_flight -= 1
            self._is_known = True
        outputs = super().update_from_output(scheduler_output, model_runner_output)
        if self._accepted:
            self._trace(output for batch in outputs.values() for output in batch.outputs)
        return outputs

    def _trace(self, outputs: Iterable[Any]) -> None:
        """Tell the API server which tokens of traced requests were drafted, and by whom."""
        for output in outputs:
            if (found := self._accepted.get(output.request_id)) is not None:
                output.kv_transfer_params = add_accepted(output.kv_transfer_params, *found)
        self._accepted.clear()

    def _update_after_schedule(self, scheduler_output: Any) -> None:
        super()._update_after_schedule(scheduler_output)
        # vLLM would verify placeholders in each step, as many for each request.
        for request in scheduler_output.num_scheduled_tokens:
            self.requests[request].spec_token_ids = []

    def _next_step(self, output: Any) -> NextStep:
        # Requests of `output` that decode may end in it; they count as if they went on.
        running = len(self.running)
        reading = [request for request in self.running if request.is_prefill_chunk]
        free = max(0, self.scheduler_config.max_num_seqs - running)
        waiting = list(islice(self.waiting, free)) if self.waiting else []
        decoding = running - len(reading)
        prefill = prefill_of_step(
            (one.num_tokens - one.num_computed_tokens for one in chain(reading, waiting)),
            room_tokens=max(0, self.max_num_scheduled_tokens - decoding),
            longest_piece=self._longest_piece(),
            in_pieces=self.scheduler_config.enable_chunked_prefill,
        )
        rooms = (
            room_in_cache(
                self.kv_cache_manager.block_pool.get_num_free_blocks(),
                self.block_size,
                sequences=running,
                most=self.num_spec_tokens,
            ),
            room_in_step(
                self.max_num_scheduled_tokens,
                sequences=decoding,
                prefill_tokens=prefill,
                most=self.num_spec_tokens,
            ),
            # Each request may compute one more row of logits, for its next token.
            room_in_step(
                self._most_rows,
                sequences=running + len(waiting),
                prefill_tokens=0,
                most=self.num_spec_tokens,
            ),
        )
        drafted = sum(map(len, output.scheduled_spec_decode_tokens.values()))
        return NextStep(
            prefill_tokens=prefill,
            context_tokens=sum(request.num_computed_tokens for request in reading),
            waiting=len(reading) + len(waiting),
            room_tokens=min((room for room in rooms if room is not None), default=None),
            read_tokens=(
                output.total_num_scheduled_tokens - len(output.num_scheduled_tokens) - drafted
            ),
        )

    def _longest_piece(self) -> int:
        """Return how many tokens vLLM reads of one prompt in a step; the same rule as its own."""
        limit: int = self.scheduler_config.long_prefill_token_threshold
        requests = sum(self.get_request_counts())
        if limit <= 0 or requests <= 1:
            limit = self.max_num_scheduled_tokens
        elif self.adaptive_long_prefill_threshold:
            limit = max(limit, self.scheduler_config.max_num_batched_tokens // requests)
        return limit

    def add_request(self, request: Any) -> None:
        """Add a request, with our counts."""
        super().add_request(request)
        if request.spec_decode_metrics is not None:
            request.spec_decode_metrics = SourcedMetrics.new(self.num_spec_tokens)
        if request.sampling_params is not None and is_asked(request.sampling_params.extra_args):
            self._traced.add(request.request_id)

    def update_draft_token_ids(self, draft_token_ids: Any) -> None:
        """Take the next step's drafts and their sources."""
        super().update_draft_token_ids(draft_token_ids)
        native_tokens = getattr(draft_token_ids, "native_tokens", None)
        if self._native_tokens is not None and native_tokens is not None:
            self._native_tokens = native_tokens
        self._ahead = getattr(draft_token_ids, "ahead", False)
        origins = getattr(draft_token_ids, "origins", ())
        for request_id, origin in zip(draft_token_ids.req_ids, origins, strict=False):
            if origin is not None and request_id in self.requests:
                self._origins[request_id] = origin

    def make_spec_decoding_stats(
        self,
        spec_decoding_stats: Any,
        num_draft_tokens: int,
        num_accepted_tokens: int,
        num_invalid_spec_tokens: Any,
        request_id: str,
    ) -> Any:
        """Count a verified draft for its source, without what its grammar forbids; as vLLM does."""
        origin = self._verified.get(request_id, _UNNAMED)
        request = self.requests.get(request_id)
        if request is not None and request.spec_decode_metrics is not None:
            request.spec_decode_metrics.expect(origin)
        invalid = (num_invalid_spec_tokens or {}).get(request_id, 0)
        self._acceptance.observe(origin, num_draft_tokens - invalid, num_accepted_tokens)
        if request_id in self._traced:
            self._accepted[request_id] = (origin, num_accepted_tokens)
        return super().make_spec_decoding_stats(
            spec_decoding_stats,
            num_draft_tokens,
            num_accepted_tokens,
            num_invalid_spec_tokens,
            request_id,
        )

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self._origins.pop(request.request_id, None)
        self._traced.discard(request.request_id)
        return super()._free_request(request, *args, **kwargs)

    def _publish(self) -> None:
        self._acceptance.publish()
        counts = self._acceptance.by_source()
        flat = {(name, kind): n for name, of in counts.items() for kind, n in of.items()}
        recent, seconds = self._recent.rise(flat, time.monotonic())
        self._report.write(
            {
                name: {
                    **count,
                    "recent": {
                        "seconds": round(seconds, 1),
                        **{kind: recent[name, kind] for kind in count},
                    },
                }
                for name, count in counts.items()
            }
        )

    def shutdown(self) -> None:
        """Stop our thread, then vLLM's parts."""
        self._publishing.stop()
        super().shutdown()


def room_in_cache(free_blocks: int, block_tokens: int, *, sequences: int, most: int) -> int | None:
    """Return how many KV cache slots drafts may use without causing a preemption.

    Args:
        free_blocks: Free blocks of the KV cache.
        block_tokens: Slots per block.
        sequences: Running requests; the next token of each may need a block.
        most: Length of the longest draft.

    Returns:
        Number of slots; None if every sequence could have the longest draft.
    """
    needed = sequences * -(-(1 + most) // block_tokens)
    if free_blocks >= needed:
        return None
    return max(0, free_blocks - sequences) * block_tokens


def prefill_of_step(
    unread: Iterable[int], *, room_tokens: int, longest_piece: int, in_pieces: bool
) -> int:
    """Return how many prompt tokens a step reads if drafts leave it the room.

    Args:
        unread: Tokens left of each prompt, in the order in which they are scheduled. A prompt that
            waits may turn out to be cached; then this is too much, for one step.
        room_tokens: Room in the step beside the next tokens of the decoding requests.
        longest_piece: Most tokens that a step reads of one prompt.
        in_pieces: Whether a prompt is split if it does not fit (chunked prefill). If not, it waits,
            and those after it.
    """
    total = 0
    for tokens in unread:
        piece = min(tokens, longest_piece)
        if piece > room_tokens - total and not in_pieces:
            break
        total = min(total + piece, room_tokens)
    return total


def room_in_step(
    budget_tokens: int, *, sequences: int, prefill_tokens: int, most: int
) -> int | None:
    """Return how many draft tokens the next step can take beside prompts and next tokens.

    vLLM schedules the running requests in turn until the step is full. If drafts asked for more,
    requests late in the list would get nothing, in each step the same.

    Args:
        budget_tokens: Most tokens of a step (`max_num_batched_tokens`).
        sequences: Requests that decode.
        prefill_tokens: Prompt tokens that the step reads.
        most: Length of the longest draft.

    Returns:
        Number of tokens; None if every sequence could have the longest draft.
    """
    room = max(0, budget_tokens - sequences - prefill_tokens)
    return None if room >= sequences * most else room
