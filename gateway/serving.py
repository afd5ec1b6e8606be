"""The life of one request, top to bottom: admit, choose a worker, open, relay, settle.

A request is tried again only if a worker was lost or answered badly, and only within its deadline
and the shared retry budget. While no part of an answer has reached the client it is replayed; later
another worker goes on behind what the client has (ADR 48), if the answer is text.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

import structlog

from gateway.admission import Admission, Caller, Entry
from gateway.canary import Canary, Watched
from gateway.errors import (
    DrainingError,
    GatewayError,
    NoHealthyWorkerError,
    PermissionDeniedError,
    UpstreamError,
    WorkerBusyError,
    WorkerLeftError,
    WorkerLostError,
    WorkerTimeoutError,
)
from gateway.pacing import choose_mode
from gateway.protocol import (
    Endpoint,
    InferenceRequest,
    Progress,
    SeenTokens,
    TenantDigests,
    error_event,
    forwarded_body,
    prompt_text,
    read_request,
    relayed_error,
)
from gateway.relay import Pacers, SlowClientError, StreamRelay, TokenClock, WholeRelay
from gateway.responses import Conversations
from gateway.routing import NO_ASK, Ask, hash_prefix
from gateway.telemetry import GatewayMetrics
from gateway.types import PacingMode, RequestRecord, Sink
from gateway.upstream import (
    Failover,
    Lease,
    Pool,
    PredictionTokenizer,
    Prober,
    RetryBudget,
    Worker,
    WorkerAnswer,
)

log = structlog.get_logger(__name__)

_ERROR_BODY_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class ServingPolicy:
    """Limits of one request.

    Attributes:
        wait_for_worker_seconds: Longest wait for a healthy worker, over all attempts.
        request_seconds: Longest duration of a request, from admission to its end.
        max_replays: How often a request is replayed after a worker received it.
        default_max_tokens: Longest output of a request that sets no limit; None: the model's.
        held_answer_bytes: An answer that is not a stream is held until complete, up to this size.
        max_frame_bytes: Largest event in a worker's stream.
        client_stuck_seconds: How long a client may read nothing.
        resume_streams: Whether a text stream goes on with another worker if its own is lost.
        pacing: Default pacing mode.
        model_pacing: Pacing mode by model.
    """

    wait_for_worker_seconds: float
    request_seconds: float
    max_replays: int
    default_max_tokens: int | None
    held_answer_bytes: int
    max_frame_bytes: int
    client_stuck_seconds: float
    resume_streams: bool
    pacing: PacingMode
    model_pacing: Mapping[str, PacingMode]


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request, as a route passes it on.

    Attributes:
        endpoint: The endpoint that received it.
        caller: Who sent it.
        body: Its body.
        worker_request_id: The `X-Request-Id` for the worker; unique even if the client's is not.
        headers: Other request headers for the worker.
        pacing: The value of `X-Pacing`.
    """

    endpoint: Endpoint
    caller: Caller
    body: bytes
    worker_request_id: str
    headers: Mapping[str, str]
    pacing: str | None = None


@dataclass(slots=True)
class _Exchange:
    """What is sent to a worker: the same on every attempt once the prediction is tokenized.

    Attributes:
        prediction: Text still to be tokenized; empty if there is none, or it is done.
        pacing: Pacing mode of the stream.
        ask: What decides which worker gets it.
    """

    request: InferenceRequest
    tenant: str
    model: str | None
    body: bytes
    headers: Mapping[str, str]
    record: RequestRecord
    prediction: str
    pacing: PacingMode
    ask: Ask


class Serving:
    """Serves calls on the endpoints of the workers."""

    def __init__(  # its collaborators
        self,
        admission: Admission,
        pool: Pool,
        prober: Prober,
        metrics: GatewayMetrics,
        *,
        digests: TenantDigests,
        tokenizer: PredictionTokenizer,
        pacers: Pacers,
        conversations: Conversations,
        canary: Canary,
        budget: RetryBudget,
        policy: ServingPolicy,
    ) -> None:
        self._admission = admission
        self._pool = pool
        self._prober = prober
        self._metrics = metrics
        self._digests = digests
        self._tokenizer = tokenizer
        self._pacers = pacers
        self._conversations = conversations
        self._canary = canary
        self._budget = budget
        self._policy = policy
        self._running: set[asyncio.Timeout] = set()
        self._ending = False

    def end_all(self) -> None:
        """End all running requests, because the drain has timed out.

        Streams get an error event, all others a 503.
        """
        self._ending = True
        self._admission.slots.close()
        now = asyncio.get_running_loop().time()
        for timeout in self._running:
            timeout.reschedule(now)

    async def serve(self, call: Call, entry: Entry, sink: Sink, record: RequestRecord) -> None:
        """Answer a call into `sink`, and write the outcome into `record`.

        Raises:
            GatewayError: Nothing has been sent; the caller has to send the error.
        """
        request = read_request(
            call.endpoint,
            call.body,
            pacing_header=call.pacing,
            default_max_tokens=self._policy.default_max_tokens,
            may_resume=self._policy.resume_streams,
        )
        record.stream = request.stream
        model = self._pool.require_model(request.model)
        if not call.caller.may_use(model):
            raise PermissionDeniedError("This key is not for that model.", param="model")
        if model is not None and model in self._pool.models:
            record.model = model
        model_limit = self._pool.model_limit(model)
        request = request.within(model_limit)
        pacing = choose_mode(
            request.pacing,
            call.caller.pacing,
            self._policy.model_pacing.get(model or ""),
            self._policy.pacing,
        )
        request = self._canary.prepare(request, model=record.model, pacing=pacing)
        if request.turn is not None:
            tenant = call.caller.tenant
            request = await self._conversations.resume(request, tenant, entry.hold)
        exchange = _Exchange(
            request=request,
            tenant=call.caller.tenant,
            model=model,
            body=forwarded_body(request, tenant=call.caller.tenant, digests=self._digests),
            headers={**call.headers, "x-request-id": call.worker_request_id},
            record=record,
            prediction=request.prediction,
            pacing=pacing,
            ask=self._ask(request, call.caller.tenant, model),
        )
        await entry.run(estimated_tokens=request.estimated_tokens(model_limit))
        record.queued_seconds = entry.queued_seconds
        record.trace.queued(entry.queued_seconds)
        record.response_headers.extend(entry.headers)
        try:
            if request.stream:
                await self._serve_stream(exchange, sink)
            else:
                await self._serve_whole(exchange, sink)
        except SlowClientError:
            record.note_failure(200, "cancelled", "slow_client", "slow_client")
            sink.abort()  # a close would wait until the client has read what is left
        except GatewayError as error:
            record.outcome = error.outcome
            raise
        finally:
            _settle(entry, request, record)

    async def _serve_whole(self, exchange: _Exchange, sink: Sink) -> None:
        record, relay = exchange.record, self._whole(exchange, sink)
        await self._relay(exchange, relay)
        assert relay.answer is not None
        record.usage, record.acceptance = relay.answer.usage, relay.answer.acceptance
        record.outcome = "completed"
        self._offer(exchange, relay.answer.seen)

    async def _serve_stream(self, exchange: _Exchange, sink: Sink) -> None:
        request, record = exchange.request, exchange.record
        clock = TokenClock(
            self._metrics.gaps_from_worker.observe, self._metrics.gaps_to_client.observe
        )
        whole = self._whole(exchange, sink)
        async with self._pacers.open(
            exchange.pacing, request, sink, record.response_headers, mark=clock.mark_sent
        ) as writer:
            relay = StreamRelay(
                request,
                writer,
                clock,
                whole=whole,
                max_frame_bytes=self._policy.max_frame_bytes,
                keep=partial(self._conversations.keep, request, exchange.tenant),
            )
            try:
                await self._relay(exchange, relay)
                record.outcome = "completed"
                record.stream_end = "completed" if whole.answer is None else None
                self._offer(exchange, relay.reader.seen if whole.answer is None else None)
            except GatewayError as error:
                if not (writer.out.started or writer.out.delivered):
                    raise
                record.stream_end = "error_event"
                record.note_failure(200, error.outcome, error.code, error.reason)
                if self._ending:
                    writer.hurry()
                if held := relay.take_held():
                    writer.other(held)
                number = relay.reader.frames_read
                await writer.end(
                    error_event(error, request.endpoint.dialect, sequence_number=number)
                )
            finally:
                record.first_token_seconds = clock.first_token_seconds
                if whole.answer is not None:
                    record.usage, record.acceptance = whole.answer.usage, whole.answer.acceptance
                else:
                    record.usage = relay.reader.running_usage
                    record.acceptance = relay.reader.acceptance
                if writer.out.started and record.stream_end is None:
                    record.stream_end = "cancelled"

    def _offer(self, exchange: _Exchange, seen: SeenTokens | None) -> None:
        """Let the canary have an answer that it watched."""
        record = exchange.record
        if seen is not None and record.worker is not None:
            watched = Watched(
                exchange.headers["x-request-id"],
                record.model,
                record.worker,
                exchange.request.endpoint,
                exchange.body,
                seen.ids,
                seen.sources,
            )
            self._canary.offer(watched)

    def _whole(self, exchange: _Exchange, sink: Sink) -> WholeRelay:
        return WholeRelay(
            sink,
            exchange.record.response_headers,
            held_bytes=self._policy.held_answer_bytes,
            stuck_seconds=self._policy.client_stuck_seconds,
            keep=partial(self._conversations.keep, exchange.request, exchange.tenant),
        )

    async def _relay(self, exchange: _Exchange, relay: StreamRelay | WholeRelay) -> None:
        """Try workers until one's answer was relayed or no further attempt is allowed."""
        failover = Failover(
            self._budget,
            max_replays=self._policy.max_replays,
            has_other=partial(self._pool.has_other, exchange.model),
        )
        deadline = self._lease_deadline()
        try:
            async with self._time_limit():
                while True:
                    try:
                        async with self._pool.lease(
                            exchange.model,
                            wait_seconds=deadline - time.monotonic(),
                            avoid=failover.failed,
                            ask=exchange.ask,
                        ) as lease:
                            worker = lease.worker
                            return await self._attempt(lease, exchange, relay, failover)
                    except NoHealthyWorkerError:
                        raise
                    except UpstreamError as error:
                        progress = None if relay.may_retry else relay.progress
                        if progress is not None and progress.has_text_end:
                            return await relay.end()
                        if not (
                            (relay.may_retry or progress is not None)
                            and failover.allows(
                                error, worker=worker.id, has_begun=progress is not None
                            )
                        ):
                            raise
                        if progress is None:
                            log.warning("request_replayed", worker=worker.id, reason=error.reason)
                        else:
                            self._resume(exchange, progress)
                            deadline = self._lease_deadline()
                            log.warning("stream_resumed", worker=worker.id, reason=error.reason)
                        if isinstance(error, WorkerLostError) and error.sent and worker.up:
                            # A dying process closes its sockets one by one; another attempt on
                            # it would be lost as well.
                            await self._prober.check(worker)
        except TimeoutError as error:
            if self._ending:
                raise _shutting_down() from error
            raise WorkerTimeoutError("The request took too long.") from error

    def _ask(self, request: InferenceRequest, tenant: str, model: str | None) -> Ask:
        """What is known of a request; hashing its prompt only where that decides anything."""
        if not self._pool.reads_prompts:
            return NO_ASK
        text = prompt_text(request)
        prefix = hash_prefix(
            (model or "", tenant, text.salt), text.parts, text.opening, continues=text.continues
        )
        return Ask(tenant, prefix, request.asked_tokens)

    def _lease_deadline(self) -> float:
        return time.monotonic() + self._policy.wait_for_worker_seconds

    def _resume(self, exchange: _Exchange, progress: Progress) -> None:
        """Let the next attempt go on behind what the client has."""
        self._metrics.resumed_streams.inc()
        exchange.request = exchange.request.resuming(progress.tokens)
        exchange.body = forwarded_body(
            exchange.request, tenant=exchange.tenant, digests=self._digests
        )

    async def _attempt(
        self,
        lease: Lease,
        exchange: _Exchange,
        relay: StreamRelay | WholeRelay,
        failover: Failover,
    ) -> None:
        """Make one attempt on one worker.

        Raises:
            WorkerLostError: Also if the worker answered with an error and turns out to be dying:
                vLLM still answers for a moment after its engine is gone.
        """
        record, worker = exchange.record, lease.worker
        record.worker = worker.id
        record.attempts += 1
        relay.tell_first(lease.first_token)
        if exchange.prediction:
            await self._tokenize_prediction(worker, exchange)
        with record.trace.attempt(worker.id) as trace_headers:
            try:
                async with worker.client.post(
                    exchange.request.endpoint.path,
                    exchange.body,
                    {**exchange.headers, **trace_headers},
                ) as answer:
                    if answer.status >= 400:
                        body = await answer.read(max_bytes=_ERROR_BODY_BYTES)
                        raise relayed_error(answer.status, body)
                    if answer.is_event_stream:
                        self._pool.on_leave(lease, partial(_hand_over, relay, answer, failover))
                    await relay.relay(exchange.request, answer)
                    if not exchange.request.resumed:  # vLLM does not say what was cached of it
                        lease.answer(*relay.counts)
            except (WorkerBusyError, WorkerLostError, WorkerTimeoutError):
                raise
            except UpstreamError as error:
                log.warning("worker_error", worker=worker.id, error=error.message)
                if not await self._prober.check(worker):
                    raise WorkerLostError("The engine was lost.", sent=True) from error
                raise

    async def _tokenize_prediction(self, worker: Worker, exchange: _Exchange) -> None:
        """Add the tokens of the prediction to the request, or drop the prediction.

        Raises:
            WorkerLostError: `worker` cannot be reached; nothing has changed.
        """
        tokens = await self._tokenizer.tokenize(
            exchange.prediction, worker=worker, model=exchange.model
        )
        exchange.prediction = ""
        if tokens:
            exchange.request = replace(exchange.request, predicted_tokens=tokens)
            exchange.body = forwarded_body(
                exchange.request, tenant=exchange.tenant, digests=self._digests
            )

    @asynccontextmanager
    async def _time_limit(self) -> AsyncIterator[None]:
        """Limit the time of a request; `end_all` can end it early."""
        if self._ending:
            raise _shutting_down()  # it left the queue after `end_all`
        async with asyncio.timeout(self._policy.request_seconds) as timeout:
            self._running.add(timeout)
            try:
                yield
            finally:
                self._running.discard(timeout)


def _hand_over(relay: StreamRelay | WholeRelay, answer: WorkerAnswer, failover: Failover) -> bool:
    """Take a stream from a worker that has left, if another one can go on with it."""
    moves = (relay.may_retry or relay.progress is not None) and failover.may_move()
    if moves:
        answer.give_up(WorkerLeftError())
    return moves


def _shutting_down() -> DrainingError:
    return DrainingError("The server is shutting down.", retry_after_seconds=1.0)


def _settle(entry: Entry, request: InferenceRequest, record: RequestRecord) -> None:
    """Charge the key's limits with what the request really used."""
    if (usage := record.usage) is not None:
        # A stream that ended early may not have counted its prompt.
        prompt_tokens = usage.prompt_tokens or request.estimated_prompt_tokens
        entry.used_tokens = prompt_tokens + usage.completion_tokens
    elif record.attempts == 0 or record.outcome == "caller_error":
        entry.used_tokens = 0
