"""All metrics of the gateway; docs/metrics.md lists them.

With several processes prometheus-client stores the values in files in PROMETHEUS_MULTIPROC_DIR, and
`exposition` adds them up. It supports exemplars with one process only.
"""

from collections.abc import Iterable, Iterator
from math import isnan, nan
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from gateway.errors import (
    BytesInFlightError,
    DrainingError,
    QueueFullError,
    QueueTimeoutError,
    RateLimitError,
    UpstreamError,
    WorkerLostError,
    WorkerTimeoutError,
)
from gateway.telemetry.buffered_histogram import BufferedHistogram, Histogram
from gateway.types import Foreseen, Outcome, PacingMode, RequestRecord, WorkerId

# fmt: off
LATENCY_BUCKETS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75,
    1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0,
)
_DURATION_BUCKETS = (
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0,
)
TOKEN_BUCKETS = (
    0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04,
    0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.5,
)
_ADDED_BUCKETS = (
    0.0, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.04,
    0.05, 0.06, 0.08, 0.1, 0.12, 0.14, 0.2, 0.5,
)
# fmt: on
_STORE_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1)
_RATIO_BUCKETS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
_LENGTH_BUCKETS = (
    *(1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0),
    *(10.0, 12.0, 16.0, 24.0, 33.0, 65.0, 129.0),  # drafts of 32, 64 and 128, all accepted
)
_STREAM_ENDS = ("completed", "error_event", "cancelled")
_CANARY_RESULTS = ("same", "near_tie", "differs")
_ROUTING_REASONS = ("cached", "hashed", "idle", "least_loaded")
_HELD_BUCKETS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_DRAFT_BUCKETS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


class GatewayMetrics:
    """The metrics, and a method for each event that the gateway reports.

    Attributes:
        registry: As given.

    Args:
        registry: Where the metrics are registered; tests use their own.
        multiprocess: Values are shared between processes through files.
    """

    def __init__(self, registry: CollectorRegistry, *, multiprocess: bool = False) -> None:
        self.registry = registry
        self._multiprocess = multiprocess
        self.requests = Counter(
            "gateway_requests_total",
            "Requests that ended, by how they ended.",
            ["endpoint", "model", "outcome"],
            registry=registry,
        )
        self.duration = Histogram(
            "gateway_request_duration_seconds",
            "From a request's first byte to the end of its answer.",
            ["endpoint", "model"],
            buckets=_DURATION_BUCKETS,
            registry=registry,
        )
        self.time_to_first_token = Histogram(
            "gateway_time_to_first_token_seconds",
            "From a streaming request's arrival to its first generated text handed to the client.",
            ["model"],
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        inter_token = Histogram(
            "gateway_inter_token_seconds",
            "Gap between generated tokens, one observation a token: as they came from the worker, "
            "and as they were handed to the client.",
            ["stage"],
            buckets=TOKEN_BUCKETS,
            registry=registry,
        )
        self.gaps_from_worker = BufferedHistogram(inter_token.labels("worker"), TOKEN_BUCKETS)
        self.gaps_to_client = BufferedHistogram(inter_token.labels("client"), TOKEN_BUCKETS)
        self.resumed_streams = Counter(
            "gateway_resumed_streams_total",
            "Streams that another worker went on with, since their own was lost.",
            registry=registry,
        )
        self.pacing_streams = Counter(
            "gateway_pacing_streams_total",
            "Streams that began, by how they are paced: smooth, private, off.",
            ["mode"],
            registry=registry,
        )
        added = Histogram(
            "gateway_pacing_added_seconds",
            "Delay that pacing added to a token, one observation a token of a paced stream.",
            ["mode"],
            buckets=_ADDED_BUCKETS,
            registry=registry,
        )
        self.added_smooth = BufferedHistogram(added.labels("smooth"), _ADDED_BUCKETS)
        self.added_private = BufferedHistogram(added.labels("private"), _ADDED_BUCKETS)
        depth = Histogram(
            "gateway_pacing_held_tokens",
            "Tokens of a smooth stream that are held when a piece is sent.",
            buckets=_HELD_BUCKETS,
            registry=registry,
        )
        self.pacing_depth = BufferedHistogram(depth, _HELD_BUCKETS)
        self.tokens = Counter(
            "gateway_tokens_total",
            "Tokens as workers counted them; kind: prompt, cached (part of prompt), completion.",
            ["model", "kind"],
            registry=registry,
        )
        self.unstreamed_tokens = Counter(
            "gateway_unstreamed_tokens_total",
            "Completion tokens of answers that were not streamed, counted when they end. Those of "
            "streams are counted as they come, in gateway_inter_token_seconds.",
            registry=registry,
        )
        self.inflight = Gauge(
            "gateway_inflight_requests",
            "Requests that hold a slot.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        self.queue_depth = Gauge(
            "gateway_queue_depth",
            "Requests that wait for a slot.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        self.rejections = Counter(
            "gateway_rejections_total",
            "Requests answered with an error by the gateway itself.",
            ["reason"],
            registry=registry,
        )
        self.limits_store_up = Gauge(
            "gateway_limits_store_up",
            "0 while the store of the limits does not answer; 1 if there is none.",
            multiprocess_mode="livemin",
            registry=registry,
        )
        self.limits_store_seconds = Histogram(
            "gateway_limits_store_seconds",
            "How long a request waited for the store of the limits.",
            buckets=_STORE_BUCKETS,
            registry=registry,
        )
        self.responses_stored = Counter(
            "gateway_responses_stored_total",
            "Responses by what became of them: stored, failed (store or id), too_large.",
            ["outcome"],
            registry=registry,
        )
        self.responses_lookups = Counter(
            "gateway_responses_lookups_total",
            "Lookups of stored responses: found, not_found, failed (the store).",
            ["outcome"],
            registry=registry,
        )
        self.responses_removed = Counter(
            "gateway_responses_removed_total",
            "Stored responses that were removed: expired, evicted (the oldest over a bound).",
            ["reason"],
            registry=registry,
        )
        self.responses_bytes = Gauge(
            "gateway_responses_bytes",
            "Bytes of all stored responses, as last counted.",
            multiprocess_mode="livemax",
            registry=registry,
        )
        self.workers = Gauge(
            "gateway_workers",
            "Workers that the gateway knows, up or not; 0 while a name that it looks up has none.",
            multiprocess_mode="livemin",
            registry=registry,
        )
        self.worker_up_gauge = Gauge(
            "gateway_worker_up",
            "1 while a worker passes its health checks.",
            ["worker"],
            multiprocess_mode="livemin",
            registry=registry,
        )
        self.worker_inflight = Gauge(
            "gateway_worker_inflight_requests",
            "Requests that a worker runs for this gateway.",
            ["worker"],
            multiprocess_mode="livesum",
            registry=registry,
        )
        self.worker_ejected_gauge = Gauge(
            "gateway_worker_ejected",
            "1 while a worker is ejected for consecutive failures, its trial included.",
            ["worker"],
            multiprocess_mode="livemax",
            registry=registry,
        )
        self.worker_ejections = Counter(
            "gateway_worker_ejections_total",
            "Ejections of a worker, failed trials included; reason of its last failure: bad_answer "
            "(also 5xx), lost, timeout.",
            ["worker", "reason"],
            registry=registry,
        )
        self.worker_restarts = Counter(
            "gateway_worker_restarts_total",
            "Restarts of the supervised worker; reason: exited, unhealthy, stalled, start_timeout.",
            ["worker", "reason"],
            registry=registry,
        )
        self.upstream_failures = Counter(
            "gateway_upstream_failures_total",
            "Attempts that failed on a worker, replayed or not; reason: bad_answer (5xx as well), "
            "busy, lost, timeout.",
            ["worker", "reason"],
            registry=registry,
        )
        self.routed = Counter(
            "gateway_routing_decisions_total",
            "Attempts by why their worker was chosen: cached (it has read most of the prompt), "
            "hashed (the conversation hashes to it), idle (it has least to do), least_loaded (the "
            "rule of that name).",
            ["reason"],
            registry=registry,
        )
        self.routing_seconds = Counter(
            "gateway_routing_seconds_total",
            "Time of answered requests at their worker; kind: expected when it was chosen, seen.",
            ["kind"],
            registry=registry,
        )
        self.routing_cached = Counter(
            "gateway_routing_cached_tokens_total",
            "Prompt tokens in the worker's cache; kind: expected when it was chosen, seen.",
            ["kind"],
            registry=registry,
        )
        self.stream_terminations = Counter(
            "gateway_stream_terminations_total",
            "Streams by how they ended: completed, error_event, cancelled.",
            ["outcome"],
            registry=registry,
        )
        # `rate` does not see the step from no series to its first value, so these start at 0.
        for end in _STREAM_ENDS:
            self.stream_terminations.labels(end)
        for error in (
            RateLimitError,
            BytesInFlightError,
            QueueFullError,
            QueueTimeoutError,
            DrainingError,
        ):
            self.rejections.labels(error.reason)
        for reason in _ROUTING_REASONS:
            self.routed.labels(reason)
        for outcome in ("stored", "failed", "too_large"):
            self.responses_stored.labels(outcome)
        for outcome in ("found", "not_found", "failed"):
            self.responses_lookups.labels(outcome)
        self._seen: set[tuple[str, str]] = set()
        self.acceptance_ratio = Histogram(
            "gateway_request_acceptance_ratio",
            "Accepted share of a request's draft tokens, once for each source that drafted.",
            ["model", "source"],
            buckets=_RATIO_BUCKETS,
            registry=registry,
        )
        self.acceptance_length = Histogram(
            "gateway_request_acceptance_length",
            "Tokens a request gained per target step that verified a draft, bonus included.",
            ["model"],
            buckets=_LENGTH_BUCKETS,
            registry=registry,
        )
        self.canary_requests = Counter(
            "gateway_canary_requests_total",
            "Requests that were asked again without drafts, by what the comparison found: same, "
            "near_tie, differs (a defect).",
            ["model", "result"],
            registry=registry,
        )
        self.canary_skips = Counter(
            "gateway_canary_skipped_total",
            "Watched requests that were not compared; reason: busy, failed, full, late, no_tokens, "
            "plain_worker, refused, unclear, worker_gone (docs/lossless.md).",
            ["model", "reason"],
            registry=registry,
        )
        self.canary_seconds = Counter(
            "gateway_canary_seconds_total",
            "Time in which requests were asked again, aborted ones included.",
            registry=registry,
        )
        self.canary_shut = Gauge(
            "gateway_canary_shut",
            "1 while a source may not draft for a model, because the canary found too many "
            "defects.",
            ["model", "source"],
            multiprocess_mode="livemax",
            registry=registry,
        )
        self.draft_tokens = Histogram(
            "gateway_request_draft_tokens",
            "Draft tokens proposed for a request, once for each source that drafted.",
            ["model", "source"],
            buckets=_DRAFT_BUCKETS,
            registry=registry,
        )

    def canary_watched(self, model: str) -> None:
        """A watched request was answered: start at 0, so that `rate` sees the first result."""
        for result in _CANARY_RESULTS:
            self.canary_requests.labels(model, result)

    def canary_compared(self, model: str, result: str) -> None:
        """A request was asked again, and the answers were compared."""
        self.canary_requests.labels(model, result).inc()

    def canary_skipped(self, model: str, reason: str) -> None:
        """A watched request could not be compared."""
        self.canary_skips.labels(model, reason).inc()

    def source_shut(self, model: str, source: str, shut: bool) -> None:
        """A source was shut for a model, or opened."""
        self.canary_shut.labels(model, source).set(int(shut))

    def slots_changed(self, running: int, queued: int) -> None:
        """The numbers of running and queued requests changed."""
        self.inflight.set(running)
        self.queue_depth.set(queued)

    def pacing_began(self, mode: PacingMode) -> None:
        """A stream begins with pacing mode `mode`."""
        self.pacing_streams.labels(mode).inc()

    def response_stored(self, outcome: str) -> None:
        """A response was stored, or could not be."""
        self.responses_stored.labels(outcome).inc()

    def response_looked_up(self, outcome: str) -> None:
        """A stored response was looked up."""
        self.responses_lookups.labels(outcome).inc()

    def responses_swept(self, expired: int, evicted: int, kept_bytes: int) -> None:
        """Old responses were removed, and the rest was counted."""
        self.responses_removed.labels("expired").inc(expired)
        self.responses_removed.labels("evicted").inc(evicted)
        self.responses_bytes.set(kept_bytes)

    def workers_known(self, count: int) -> None:
        """The number of known workers changed."""
        self.workers.set(count)

    def worker_joined(self, worker: WorkerId) -> None:
        """A worker was added; it is not up yet."""
        self.worker_up_gauge.labels(worker).set(0)
        self.worker_inflight.labels(worker).set(0)
        self.worker_ejected_gauge.labels(worker).set(0)
        for error in (UpstreamError, WorkerLostError, WorkerTimeoutError):
            self.worker_ejections.labels(worker, error.reason)

    def worker_up(self, worker: WorkerId, up: bool) -> None:
        """A worker came up or went down."""
        self.worker_up_gauge.labels(worker).set(int(up))

    def worker_left(self, worker: WorkerId) -> None:
        """A worker was removed: its series are dropped, because 'down' would raise an alert."""
        if self._multiprocess:
            self.worker_up_gauge.labels(worker).set(nan)  # see `_LiveMetrics`
            return
        for metric in (
            self.worker_up_gauge,
            self.worker_inflight,
            self.worker_ejected_gauge,
            self.worker_ejections,
            self.upstream_failures,
        ):
            metric.remove_by_labels({"worker": worker})

    def worker_ejected(self, worker: WorkerId, reason: str) -> None:
        """A worker gets no requests for a while."""
        self.worker_ejected_gauge.labels(worker).set(1)
        self.worker_ejections.labels(worker, reason).inc()

    def worker_readmitted(self, worker: WorkerId) -> None:
        """An ejected worker gets requests again."""
        self.worker_ejected_gauge.labels(worker).set(0)

    def worker_load(self, worker: WorkerId, in_flight: int) -> None:
        """The number of requests that a worker runs changed."""
        self.worker_inflight.labels(worker).set(in_flight)

    def worker_failed(self, worker: WorkerId, reason: str) -> None:
        """A request failed on a worker."""
        self.upstream_failures.labels(worker, reason).inc()

    def request_routed(self, reason: str) -> None:
        """A worker was chosen for an attempt."""
        self.routed.labels(reason).inc()

    def route_ended(self, expected: Foreseen, seen: Foreseen) -> None:
        """A routed request was answered."""
        for kind, what in (("expected", expected), ("seen", seen)):
            self.routing_seconds.labels(kind).inc(what.seconds)
            self.routing_cached.labels(kind).inc(what.cached_tokens)

    def expect_restarts(self, worker: WorkerId, reasons: Iterable[str]) -> None:
        """A worker is supervised: start its counters at 0, so that `rate` sees the first."""
        for reason in reasons:
            self.worker_restarts.labels(worker, reason)

    def worker_restarted(self, worker: WorkerId, reason: str) -> None:
        """The supervisor restarts a worker."""
        self.worker_restarts.labels(worker, reason).inc()

    def request_ended(self, record: RequestRecord, *, now: float) -> None:
        """Count a request that has ended."""
        model = record.model
        if (record.endpoint, model) not in self._seen:
            self._seen.add((record.endpoint, model))
            for outcome in get_args(Outcome):
                self.requests.labels(record.endpoint, model, outcome)
        self.requests.labels(record.endpoint, model, record.outcome).inc()
        self.duration.labels(record.endpoint, model).observe(now - record.started_seconds)
        if record.first_token_seconds is not None:
            waited = record.first_token_seconds - record.started_seconds
            self.time_to_first_token.labels(model).observe(waited)
        if record.usage is not None:
            self.tokens.labels(model, "prompt").inc(record.usage.prompt_tokens)
            self.tokens.labels(model, "cached").inc(record.usage.cached_tokens)
            self.tokens.labels(model, "completion").inc(record.usage.completion_tokens)
            if record.stream_end is None:
                self.unstreamed_tokens.inc(record.usage.completion_tokens)
        if record.reason is not None and record.outcome in ("caller_error", "rejected"):
            self.rejections.labels(record.reason).inc()
        if record.stream_end is not None:
            self.stream_terminations.labels(record.stream_end).inc()
            self.gaps_from_worker.flush()  # a stream's gaps are visible as soon as it is counted
            self.gaps_to_client.flush()
            self.added_smooth.flush()
            self.added_private.flush()
            self.pacing_depth.flush()
        self._count_acceptance(record)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """All metrics as text and its content type, OpenMetrics if the scraper accepts it."""
        text: bytes
        registry = self.registry
        if self._multiprocess:
            registry = CollectorRegistry()
            registry.register(_LiveMetrics())
        if "application/openmetrics-text" in accept:
            text = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]  # same
            return text, openmetrics.CONTENT_TYPE_LATEST
        text = generate_latest(registry)
        return text, "text/plain; version=0.0.4; charset=utf-8"

    def _count_acceptance(self, record: RequestRecord) -> None:
        acceptance = record.acceptance
        if acceptance is None:
            return
        exemplar = None if self._multiprocess else {"request_id": str(record.request_id)[:64]}
        if acceptance.length is not None:
            self.acceptance_length.labels(record.model).observe(acceptance.length)
        for source, count in acceptance.sources.items():
            if count.ratio is not None:
                self.draft_tokens.labels(record.model, source).observe(count.drafted)
                self.acceptance_ratio.labels(record.model, source).observe(count.ratio, exemplar)


class _LiveMetrics(Collector):
    """The metrics of all processes, without the series of removed workers.

    prometheus-client cannot remove a series from the files. A worker that was removed is marked by
    NaN in `gateway_worker_up`.
    """

    def collect(self) -> Iterator[Metric]:
        every = MultiProcessCollector(CollectorRegistry())  # type: ignore[no-untyped-call]  # library has no types
        families = list(every.collect())  # type: ignore[no-untyped-call]  # same
        gone = {
            sample.labels["worker"]
            for family in families
            if family.name == "gateway_worker_up"
            for sample in family.samples
            if isnan(sample.value)
        }
        for family in families:
            family.samples = [
                sample for sample in family.samples if sample.labels.get("worker") not in gone
            ]
            yield family
