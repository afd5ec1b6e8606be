"""The life of one request, top to bottom: admit, choose a worker, open, relay, settle.

A request is replayed only if a worker was lost or answered badly, only while no part of an answer
has reached the client, and only within its deadline and the shared retry budget.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

import structlog

from gateway.admission import Admission, Admitted, Caller
from gateway.errors import (
    DrainingError,
    GatewayError,
    NoHealthyWorkerError,
    PermissionDeniedError,
    UpstreamError,
    WorkerLostError,
    WorkerTimeoutError,
)
from gateway.pacing import choose_mode
from gateway.protocol import (
    Answer,
    Endpoint,
    InferenceRequest,
    StreamReader,
    error_event,
    forwarded_body,
    read_request,
    relayed_error,
)
from gateway.relay import (
    EventStream,
    Paced,
    Pacers,
    SlowClientError,
    StreamPolicy,
    TokenClock,
    Writer,
    relay_stream,
    relay_whole,
)
from gateway.telemetry import GatewayMetrics
from gateway.types import PacingMode, RequestRecord, Sink
from gateway.upstream import (
    Failover,
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
        held_answer_bytes: An answer that is not a stream is held until complete, up to this size.
        pacing: Default pacing mode.
        model_pacing: Pacing mode by model.
    """

    wait_for_worker_seconds: float
    request_seconds: float
    max_replays: int
    held_answer_bytes: int
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
    """

    request: InferenceRequest
    tenant: str
    model: str | None
    body: bytes
    headers: Mapping[str, str]
    record: RequestRecord
    prediction: str
    pacing: PacingMode

    @property
    def path(self) -> str:
        return self.request.endpoint.path


class Serving:
    """Serves calls on the endpoints of the workers."""

    def __init__(  # its collaborators
        self,
        admission: Admission,
        pool: Pool,
        prober: Prober,
        metrics: GatewayMetrics,
        *,
        tokenizer: PredictionTokenizer,
        pacers: Pacers,
        budget: RetryBudget,
        policy: ServingPolicy,
        stream_policy: StreamPolicy,
    ) -> None:
        self._admission = admission
        self._pool = pool
        self._prober = prober
        self._metrics = metrics
        self._tokenizer = tokenizer
        self._pacers = pacers
        self._budget = budget
        self._policy = policy
        self._stream_policy = stream_policy
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

    async def serve(self, call: Call, sink: Sink, record: RequestRecord) -> None:
        """Answer a call into `sink`, and write the outcome into `record`.

        Raises:
            GatewayError: Nothing has been sent; the caller has to send the error.
        """
        request = read_request(call.endpoint, call.body, pacing_header=call.pacing)
        record.stream = request.stream
        model = self._pool.require_model(request.model)
        if not call.caller.may_use(model):
            raise PermissionDeniedError("This key is not for that model.", param="model")
        if model is not None and model in self._pool.models:
            record.model = model
        exchange = _Exchange(
            request=request,
            tenant=call.caller.tenant,
            model=model,
            body=forwarded_body(request, tenant=call.caller.tenant),
            headers={**call.headers, "x-request-id": call.worker_request_id},
            record=record,
            prediction=request.prediction,
            pacing=choose_mode(
                request.pacing,
                call.caller.pacing,
                self._policy.model_pacing.get(model or ""),
                self._policy.pacing,
            ),
        )
        async with self._admission.enter(
            call.caller, estimated_tokens=request.estimated_tokens
        ) as admitted:
            record.queued_seconds = admitted.queued_seconds
            record.trace.queued(admitted.queued_seconds)
            record.response_headers.extend(admitted.headers)
            try:
                if request.stream:
                    await self._serve_stream(exchange, sink)
                else:
                    await self._serve_whole(exchange, sink)
            except SlowClientError:
                record.note_failure(200, "cancelled", "slow_client", "slow_client")
            except GatewayError as error:
                record.outcome = error.outcome
                raise
            finally:
                _settle(admitted, record)

    async def _serve_whole(self, exchange: _Exchange, sink: Sink) -> None:
        async def relay(answer: WorkerAnswer) -> None:
            await self._relay_whole(exchange, answer, sink)

        await self._with_failover(exchange, relay, may_retry=lambda: not sink.started)

    async def _serve_stream(self, exchange: _Exchange, sink: Sink) -> None:
        record, dialect = exchange.record, exchange.request.endpoint.dialect
        reader, clock = StreamReader(exchange.request), self._token_clock()

        def mark(tokens: int | None) -> None:
            clock.client.mark(tokens, time.monotonic())

        async with (
            self._pacers.open(exchange.pacing, exchange.request, sink, mark) as paced,
            EventStream(paced.sink, self._policy_of(paced), record.response_headers) as out,
        ):

            async def relay(answer: WorkerAnswer) -> None:
                nonlocal reader, clock
                if not answer.is_event_stream:
                    if out.started:
                        raise UpstreamError("The engine did not answer with a stream.")
                    out.withdraw()
                    await self._relay_whole(exchange, answer, sink)
                    return
                reader, clock = StreamReader(exchange.request), self._token_clock()
                await self._relay_stream(
                    exchange,
                    answer,
                    reader=reader,
                    clock=clock,
                    writer=paced.writer(out),
                    out=out,
                )

            def may_retry() -> bool:
                # Keep-alives may have been sent, but no part of an answer.
                return not out.delivered and (out.started or not sink.started)

            try:
                await self._with_failover(exchange, relay, may_retry=may_retry)
            except GatewayError as error:
                if not out.started:
                    raise
                record.stream_end = "error_event"
                record.note_failure(200, error.outcome, error.code, error.reason)
                if self._ending:
                    paced.hurry()
                await out.end(error_event(error, dialect, sequence_number=reader.frames_read))
            finally:
                if out.started and record.stream_end is None:
                    record.stream_end = "cancelled"

    def _policy_of(self, paced: Paced) -> StreamPolicy:
        policy = self._stream_policy
        stuck_seconds = policy.client_stuck_seconds + paced.end_seconds
        return replace(policy, client_stuck_seconds=stuck_seconds)

    def _token_clock(self) -> TokenClock:
        return TokenClock(
            self._metrics.gaps_from_worker.observe, self._metrics.gaps_to_client.observe
        )

    async def _with_failover(
        self,
        exchange: _Exchange,
        relay: Callable[[WorkerAnswer], Awaitable[None]],
        *,
        may_retry: Callable[[], bool],
    ) -> None:
        """Try workers until one has answered or no further attempt is allowed."""
        record = exchange.record
        failover = Failover(
            self._budget,
            max_replays=self._policy.max_replays,
            has_other=partial(self._pool.has_other, exchange.model),
        )
        deadline = time.monotonic() + self._policy.wait_for_worker_seconds
        try:
            async with self._time_limit():
                while True:
                    try:
                        async with self._pool.lease(
                            exchange.model,
                            wait_seconds=deadline - time.monotonic(),
                            avoid=failover.failed,
                        ) as worker:
                            record.worker = worker.id
                            record.attempts += 1
                            with record.trace.attempt(worker.id) as headers:
                                return await self._try(worker, exchange, relay, headers)
                    except NoHealthyWorkerError:
                        raise
                    except UpstreamError as error:
                        if not (may_retry() and failover.allows(error, worker=worker.id)):
                            raise
                        log.warning("request_replayed", worker=worker.id, reason=error.reason)
                        if isinstance(error, WorkerLostError) and error.sent and worker.up:
                            # A dying process closes its sockets one by one; another attempt on
                            # it would be lost as well.
                            await self._prober.check(worker)
        except TimeoutError as error:
            if self._ending:
                raise _shutting_down() from error
            raise WorkerTimeoutError("The request took too long.") from error

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

    async def _try(
        self,
        worker: Worker,
        exchange: _Exchange,
        relay: Callable[[WorkerAnswer], Awaitable[None]],
        headers: Mapping[str, str],
    ) -> None:
        """Make one attempt on one worker.

        Args:
            worker: The worker.
            exchange: What is sent.
            relay: Relays the answer.
            headers: Additional headers for this attempt.

        Raises:
            WorkerLostError: Also if the worker answered with an error and turns out to be dying:
                vLLM still answers for a moment after its engine is gone.
        """
        if exchange.prediction:
            await self._tokenize_prediction(worker, exchange)
        try:
            async with worker.client.post(
                exchange.path, exchange.body, {**exchange.headers, **headers}
            ) as answer:
                if answer.status >= 400:
                    body = await answer.read(max_bytes=_ERROR_BODY_BYTES)
                    raise relayed_error(answer.status, body)
                await relay(answer)
        except (WorkerLostError, WorkerTimeoutError):
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
            exchange.body = forwarded_body(exchange.request, tenant=exchange.tenant)

    async def _relay_stream(  # the parts of one attempt
        self,
        exchange: _Exchange,
        answer: WorkerAnswer,
        *,
        reader: StreamReader,
        clock: TokenClock,
        writer: Writer,
        out: EventStream,
    ) -> None:
        record = exchange.record
        relaying = relay_stream(
            answer,
            reader,
            out,
            writer,
            arrivals=clock.worker,
            max_frame_bytes=self._stream_policy.max_frame_bytes,
        )
        try:
            # In a separate task: for each chunk Python resumes every `await` of the task that
            # wakes, and this one has twenty. Cancelling this task cancels that one, too.
            await asyncio.create_task(relaying, name="relay")
        finally:
            record.first_token_seconds = clock.first_token_seconds
            record.usage, record.acceptance = reader.usage, reader.acceptance
        clock.finish(reader.usage.completion_tokens if reader.usage else None)
        record.stream_end = "completed"
        record.outcome = "completed"

    async def _relay_whole(self, exchange: _Exchange, answer: WorkerAnswer, sink: Sink) -> None:
        record = exchange.record
        found: Answer = await relay_whole(
            answer,
            exchange.request,
            sink,
            status=answer.status,
            headers=[*answer.headers, *record.response_headers],
            held_bytes=self._policy.held_answer_bytes,
            stuck_seconds=self._stream_policy.client_stuck_seconds,
        )
        record.usage, record.acceptance = found.usage, found.acceptance
        record.outcome = "completed"


def _shutting_down() -> DrainingError:
    return DrainingError("The server is shutting down.", retry_after_seconds=1.0)


def _settle(admitted: Admitted, record: RequestRecord) -> None:
    """Charge the key's limits with what the request really used."""
    if record.usage is not None:
        admitted.used_tokens = record.usage.prompt_tokens + record.usage.completion_tokens
    elif record.attempts == 0 or record.outcome == "caller_error":
        admitted.used_tokens = 0
