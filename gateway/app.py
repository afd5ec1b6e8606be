"""create_app(settings): the only place where objects are built and joined together."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from random import Random
from typing import TypedDict
from urllib.parse import urlsplit

import structlog
from fastapi import FastAPI
from prometheus_client import REGISTRY, CollectorRegistry
from starlette.routing import Route

from gateway.admission import (
    Gate,
    KeyLimits,
    KeyRing,
    Ledger,
    Limits,
    Places,
    WatchedKeyFile,
    read_records,
)
from gateway.api import (
    InferenceRoute,
    Services,
    health_routes,
    install_error_handlers,
    metrics_routes,
    models_routes,
)
from gateway.errors import ConfigError
from gateway.middleware import BodyLimit, DirectRoutes, Observe
from gateway.pacing import Wheel
from gateway.protocol import ENDPOINTS, forwarded_endpoint
from gateway.relay import Pacers, PacingMeters, PrivatePolicy, SmoothPolicy, StreamPolicy
from gateway.serving import Serving, ServingPolicy
from gateway.settings import GatewaySettings, read_secret
from gateway.supervisor import (
    Backoff,
    Supervisor,
    SupervisorPolicy,
    WorkerCommand,
    WorkerRefusedError,
)
from gateway.telemetry import GatewayMetrics
from gateway.types import WorkerId
from gateway.upstream import (
    Breaker,
    ConnectionTimeouts,
    Pool,
    PredictionTokenizer,
    ProbePolicy,
    Prober,
    RetryBudget,
    Worker,
    WorkerAddress,
    WorkerConnection,
)

log = structlog.get_logger(__name__)

_QUIET = ("/metrics", "/health/live", "/health/ready", "/health/workers")
OWN_WORKER = WorkerId("local")


def _nothing() -> None:
    pass


@dataclass(slots=True)
class Lifecycle:
    """How the server and the app tell each other about the end.

    Attributes:
        draining: SIGTERM came: not ready any more.
        failed: Why the gateway cannot go on; None while it can.
        stop: Called by the app when it cannot go on.
        end_requests: Called by the server when running requests have had their time.
        others_gone: Awaited before the supervised worker is ended; other processes may use it.
        announce: Run in the background: tells people how the start goes.
    """

    draining: bool = False
    failed: str | None = None
    stop: Callable[[], None] = _nothing
    end_requests: Callable[[], None] = _nothing
    others_gone: Callable[[], Coroutine[None, None, None]] | None = None
    announce: Callable[[Pool], Coroutine[None, None, None]] | None = None

    def fail(self, reason: str) -> None:
        """The gateway cannot go on."""
        self.failed = reason
        self.stop()


@dataclass(frozen=True, slots=True)
class Place:
    """This process among those of the gateway.

    Attributes:
        index: 0 is the one that supervises the worker.
        ledger: Descriptor of the shared limits; None for a single process.
        socket_dir: Folder of the supervised worker's socket, common to all processes.
        profile: Profile that the worker reads.
    """

    index: int = 0
    ledger: int | None = None
    socket_dir: Path | None = None
    profile: Path | None = None


class State(TypedDict):
    """What the lifespan yields to every request."""

    services: Services


def create_app(
    settings: GatewaySettings,
    *,
    place: Place | None = None,
    lifecycle: Lifecycle | None = None,
    registry: CollectorRegistry = REGISTRY,
) -> FastAPI:
    """Build the gateway.

    Args:
        settings: Checked settings.
        place: This process among several; None: the only one.
        lifecycle: Shared with the server; None: one of its own.
        registry: Where metrics live; tests bring their own.

    Raises:
        ConfigError: A file that the settings name is not what it should be.
    """
    _check_files(settings)
    place = place or Place()
    lifecycle = lifecycle or Lifecycle()
    metrics = GatewayMetrics(registry, multiprocess=settings.processes > 1)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[State]:
        async with AsyncExitStack() as stack:
            services = _build(settings, place, lifecycle, metrics, stack)
            yield {"services": services}

    app = FastAPI(
        title="specgate", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None
    )
    endpoints = [*ENDPOINTS, *(forwarded_endpoint(path) for path in settings.forward_paths)]
    timeout = settings.admission.body_timeout_seconds
    routes = {
        endpoint.path: InferenceRoute(endpoint, body_timeout_seconds=timeout)
        for endpoint in endpoints
    }
    # The router knows them too, to say 405 to other methods.
    app.router.routes.extend(Route(path, route, methods=["POST"]) for path, route in routes.items())
    app.include_router(models_routes())
    app.include_router(health_routes())
    app.include_router(metrics_routes(metrics))
    install_error_handlers(app)
    app.add_middleware(DirectRoutes, routes=routes)  # the innermost comes first
    app.add_middleware(BodyLimit, most_bytes=settings.admission.max_body_bytes)
    app.add_middleware(
        Observe,
        endpoints=[*routes, "/v1/models"],
        quiet=_QUIET,
        count=lambda record, now: metrics.request_ended(record, now=now),
    )
    return app


def _check_files(settings: GatewaySettings) -> None:
    """Read what the lifespan will read: a fault found there ends in uvicorn's traceback."""
    read_secret(settings.upstream.api_key_file)
    if settings.keys.file is not None:
        try:
            read_records(settings.keys.file)
        except OSError as error:
            raise ConfigError(f"{settings.keys.file}: {error.strerror}") from error


def _build(
    settings: GatewaySettings,
    place: Place,
    lifecycle: Lifecycle,
    metrics: GatewayMetrics,
    stack: AsyncExitStack,
) -> Services:
    """Build the running parts; `stack` closes them in reverse order."""
    tasks = _Tasks(stack, lifecycle)
    workers = [_worker(settings, address) for address in _addresses(settings, place)]
    for worker in workers:
        stack.push_async_callback(worker.connection.close)
    pool = Pool(
        workers,
        metrics,
        slow_start_seconds=settings.upstream.slow_start_seconds,
        random=Random(),  # noqa: S311  # spreads load, guards nothing
    )
    prober = Prober(
        pool,
        ProbePolicy(
            interval_seconds=settings.upstream.probe_seconds,
            timeout_seconds=settings.upstream.probe_timeout_seconds,
            failures=settings.upstream.probe_failures,
            models_seconds=settings.upstream.models_seconds,
        ),
    )
    supervisor = None
    if not settings.workers and place.index == 0:
        supervisor = _supervisor(settings, place, workers[0], metrics)
        tasks.own(_supervise(supervisor, lifecycle), name="supervisor")
        stack.push_async_callback(_wait_for_others, lifecycle)
    tasks.own(prober.run(), name="prober")
    if lifecycle.announce is not None:
        tasks.own(lifecycle.announce(pool), name="announce")
    gate = _gate(settings, place, metrics, tasks)
    running = _share(settings.admission.max_running_requests, settings)
    serving = Serving(
        gate,
        pool,
        prober,
        metrics,
        tokenizer=PredictionTokenizer(
            most_tokens=settings.request.max_prediction_tokens,
            timeout_seconds=settings.request.tokenize_seconds,
        ),
        pacers=_pacers(settings, metrics, stack),
        # One worker's death may replay everything that ran on it, once.
        budget=RetryBudget(ratio=settings.upstream.retry_ratio, capacity=running),
        policy=ServingPolicy(
            wait_for_worker_seconds=settings.request.wait_for_worker_seconds,
            request_seconds=settings.request.total_seconds,
            most_replays=settings.request.max_replays,
            held_answer_bytes=settings.request.held_answer_bytes,
            pacing=settings.pacing.mode,
            model_pacing=settings.pacing.models,
        ),
        stream_policy=StreamPolicy(
            keep_alive_seconds=settings.stream.keep_alive_seconds,
            client_stuck_seconds=settings.stream.client_stuck_seconds,
            max_frame_bytes=settings.stream.max_frame_bytes,
        ),
    )
    lifecycle.end_requests = serving.end_all
    return Services(gate, pool, serving, supervisor, lambda: lifecycle.draining)


def _pacers(settings: GatewaySettings, metrics: GatewayMetrics, stack: AsyncExitStack) -> Pacers:
    chosen = settings.pacing
    wheel = Wheel(asyncio.get_running_loop())
    stack.callback(wheel.close)
    return Pacers(
        wheel,
        smooth=SmoothPolicy(chosen.max_delay_ms / 1000, chosen.piece_ms / 1000),
        private=PrivatePolicy(
            tick_seconds=chosen.private_tick_ms / 1000,
            packet_bytes=chosen.private_packet_bytes,
            start_seconds=chosen.private_start_ms / 1000,
            least_seconds=chosen.private_least_seconds,
        ),
        meters=PacingMeters(
            streams=metrics.pacing_began,
            added_smooth=metrics.added_smooth.observe,
            added_private=metrics.added_private.observe,
            depth=metrics.pacing_depth.observe,
        ),
    )


def _addresses(settings: GatewaySettings, place: Place) -> list[WorkerAddress]:
    if settings.workers:
        return [WorkerAddress(urlsplit(url).netloc, url.rstrip("/")) for url in settings.workers]
    if place.socket_dir is None:
        raise ConfigError("gateway.workers is empty, and no folder for a worker's socket is given")
    return [WorkerAddress(OWN_WORKER, "http://worker", str(place.socket_dir / "worker.sock"))]


def _worker(settings: GatewaySettings, address: WorkerAddress) -> Worker:
    key = read_secret(settings.upstream.api_key_file)
    connection = WorkerConnection(
        address,
        ConnectionTimeouts(settings.request.connect_seconds, settings.request.silence_seconds),
        api_key=None if key is None else key.get_secret_value(),
    )
    breaker = Breaker(
        threshold=settings.upstream.breaker_failures,
        open_seconds=settings.upstream.breaker_seconds,
        most_open_seconds=settings.upstream.breaker_max_seconds,
    )
    return Worker(WorkerId(address.name), connection, breaker)


def _supervisor(
    settings: GatewaySettings, place: Place, worker: Worker, metrics: GatewayMetrics
) -> Supervisor:
    socket_path = worker.connection.address.socket_path
    assert socket_path is not None
    assert place.profile is not None
    chosen = settings.supervisor
    arguments = ["-m", "engine", "--config", str(place.profile), "--uds", socket_path]
    return Supervisor(
        worker.id,
        WorkerCommand((sys.executable, *arguments, "--die-with-parent"), chosen.log_file),
        worker.connection,
        metrics,
        policy=SupervisorPolicy(
            check_seconds=chosen.check_seconds,
            probe_seconds=chosen.probe_seconds,
            start_seconds=chosen.start_seconds,
            unhealthy_seconds=chosen.unhealthy_seconds,
            stalled_seconds=chosen.stalled_seconds,
            stop_seconds=chosen.stop_seconds,
        ),
        backoff=Backoff(
            chosen.backoff_seconds, chosen.backoff_max_seconds, chosen.backoff_reset_seconds
        ),
    )


async def _supervise(supervisor: Supervisor, lifecycle: Lifecycle) -> None:
    try:
        await supervisor.run()
    except WorkerRefusedError as error:
        log.error("worker_refused", last_lines=str(error).splitlines())
        lifecycle.fail(str(error))


async def _wait_for_others(lifecycle: Lifecycle) -> None:
    """Let the other processes finish what they stream from our worker, unless it is gone."""
    if lifecycle.others_gone is not None and lifecycle.failed is None:
        await lifecycle.others_gone()


def _gate(
    settings: GatewaySettings, place: Place, metrics: GatewayMetrics, tasks: "_Tasks"
) -> Gate:
    ledger = Ledger(place.ledger, process=place.index)
    tasks.stack.callback(ledger.close)
    places = Places(
        running=_share(settings.admission.max_running_requests, settings),
        queued=_share(settings.admission.max_queued_requests, settings),
        timeout_seconds=settings.admission.queue_timeout_seconds,
        on_change=metrics.places_changed,
    )
    if settings.keys.file is None:
        return Gate(None, Limits(ledger), places)
    defaults = KeyLimits(
        settings.keys.requests_per_minute,
        settings.keys.tokens_per_minute,
        settings.keys.concurrent_requests,
    )
    watched = WatchedKeyFile(settings.keys.file, defaults=defaults)
    tasks.own(_follow(watched, settings.keys.reload_seconds), name="keys")

    def ring() -> KeyRing:
        return watched.ring  # anew at each call: the task above refreshes it

    return Gate(ring, Limits(ledger), places)


async def _follow(watched: WatchedKeyFile, every_seconds: float) -> None:
    while True:
        await asyncio.sleep(every_seconds)
        try:
            if watched.refresh():
                log.info("keys_reloaded", keys=len(watched.ring))
        except (ConfigError, OSError) as error:
            log.error("keys_unreadable", error=str(error))


@dataclass(frozen=True, slots=True)
class _Tasks:
    """Background tasks, each ended when `stack` closes; one that fails ends the gateway."""

    stack: AsyncExitStack
    lifecycle: Lifecycle

    def own(self, work: Coroutine[None, None, None], *, name: str) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._look)

        async def end() -> None:
            task.cancel()
            await asyncio.wait({task})

        self.stack.push_async_callback(end)

    def _look(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background_task_failed", task=task.get_name(), exc_info=error)
            self.lifecycle.fail(f"{task.get_name()}: {error!r}")


def _share(total: int, settings: GatewaySettings) -> int:
    """This process's part of a number that is set for the whole gateway."""
    return ceil(total / settings.processes)
