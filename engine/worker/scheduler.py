"""vLLM's scheduler with accounting of drafted and accepted tokens by source."""

from itertools import islice
from typing import Any

from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.metrics.stats import RequestSpecDecodeMetrics

from engine.drafting import NATIVE, Origin
from engine.worker.metrics import AcceptanceMetrics
from engine.worker.periodic import Periodic
from engine.worker.report import Report, report_folder
from engine.worker.speculation import read_settings
from engine.worker.steps import Backlog, room_for_drafts

_UNNAMED = Origin(NATIVE)


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


class HybridScheduler(Scheduler):
    """Passes drafts on as vLLM does, and remembers the source of each until it is verified."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._origins: dict[str, Origin] = {}
        self._acceptance = AcceptanceMetrics()
        rank = self.vllm_config.parallel_config.data_parallel_rank
        self._report = Report(report_folder(), "acceptance", rank)
        self._publishing = Periodic(self._publish, seconds=1.0, name="acceptance metrics")
        # Without this table vLLM 0.32 gives a request with a single token to compute (because its
        # prompt is cached) a draft of placeholders, which are all verified and rejected.
        every = [self.num_spec_tokens] * (self.scheduler_config.max_num_seqs + 1)
        self.dynamic_sd_lookup: list[int] = vars(self)["dynamic_sd_lookup"] or every
        self._native_tokens: int | None = None
        native = read_settings(self.vllm_config).native
        if native is not None and self.vllm_config.speculative_config.uses_draft_kv_cache():
            self._native_tokens = native.most

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Schedule a step; tell all ranks the native draft length and the waiting requests."""
        output = super().schedule(*args, **kwargs)
        if self._native_tokens is not None:
            output.num_spec_tokens_to_schedule = self._native_tokens
        output.specgate_backlog = self._backlog()
        return output

    def _backlog(self) -> Backlog:
        sequences = len(self.running)
        free = self.scheduler_config.max_num_seqs - sequences
        waiting = list(islice(self.waiting, max(0, free))) if self.waiting else []
        return Backlog(
            waiting=len(waiting),
            prompt_tokens=sum(one.num_tokens - one.num_computed_tokens for one in waiting),
            room_tokens=room_for_drafts(
                self.kv_cache_manager.block_pool.get_num_free_blocks(),
                self.block_size,
                sequences=sequences,
                most=self.num_spec_tokens,
            ),
        )

    def add_request(self, request: Any) -> None:
        """Add a request, with our counts."""
        super().add_request(request)
        if request.spec_decode_metrics is not None:
            request.spec_decode_metrics = SourcedMetrics.new(self.num_spec_tokens)

    def update_draft_token_ids(self, draft_token_ids: Any) -> None:
        """Take the next step's drafts and their sources."""
        super().update_draft_token_ids(draft_token_ids)
        native_tokens = getattr(draft_token_ids, "native_tokens", None)
        if self._native_tokens is not None and native_tokens is not None:
            self._native_tokens = native_tokens
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
        """Count a verified draft for its source, then as vLLM does."""
        origin = self._origins.get(request_id, _UNNAMED)
        request = self.requests.get(request_id)
        if request is not None and request.spec_decode_metrics is not None:
            request.spec_decode_metrics.expect(origin)
        self._acceptance.observe(origin, num_draft_tokens, num_accepted_tokens)
        return super().make_spec_decoding_stats(
            spec_decoding_stats,
            num_draft_tokens,
            num_accepted_tokens,
            num_invalid_spec_tokens,
            request_id,
        )

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self._origins.pop(request.request_id, None)
        return super()._free_request(request, *args, **kwargs)

    def _publish(self) -> None:
        self._acceptance.publish()
        counts = self._acceptance.by_source()
        self._report.write({name: {**count} for name, count in counts.items()})

    def shutdown(self) -> None:
        """Stop our thread, then vLLM's parts."""
        self._publishing.stop()
        super().shutdown()
