"""Build and connect the objects of a process; they are closed in reverse order."""

import asyncio
from contextlib import AsyncExitStack
from math import ceil
from random import Random

import structlog

from gateway.admission import (
    Admission,
    BytesInFlight,
    KeyLimits,
    KeyRing,
    Ledger,
    Limits,
    LocalLimits,
    Slots,
    WatchedKeyFile,
    open_store_limits,
)
from gateway.api import Services
from gateway.assembly.live import start_sampler
from gateway.assembly.process import Lifecycle, ProcessContext, Tasks, tenant_secret
from gateway.assembly.workers import discoveries, known_workers, supervise
from gateway.canary import Canary, CanaryPolicy, Defects, TimeBudget
from gateway.errors import ConfigError
from gateway.pacing import Wheel
from gateway.protocol import TenantDigests
from gateway.relay import Pacers, PacingMeters, PrivatePolicy, SmoothPolicy, StreamPolicy
from gateway.responses import (
    Bounds,
    ConversationMeters,
    ConversationPolicy,
    Conversations,
    open_store,
)
from gateway.routing import Router
from gateway.serving import Serving, ServingPolicy
from gateway.settings import GatewaySettings, read_secret
from gateway.telemetry import GatewayMetrics
from gateway.upstream import Pool, PredictionTokenizer, ProbePolicy, Prober, RetryBudget

log = structlog.get_logger(__name__)


def build_services(
    settings: GatewaySettings,
    process: ProcessContext,
    lifecycle: Lifecycle,
    metrics: GatewayMetrics,
    stack: AsyncExitStack,
) -> Services:
    """Build all services; `stack` closes them.

    Raises:
        ConfigError: A file or address in the settings is not usable.
    """
    tasks = Tasks(stack, lifecycle)
    workers = known_workers(settings, process)
    for worker in workers:
        stack.push_async_callback(worker.client.close)
    pool = Pool(
        workers,
        metrics,
        slow_start_seconds=settings.upstream.slow_start_seconds,
        random=Random(),  # noqa: S311  # for load balancing, not for secrets
        router=_router(settings),
    )
    prober = _prober(settings, pool)
    supervisor = None
    if not settings.workers and process.index == 0:
        supervisor = supervise(settings, process, workers[0], metrics, tasks)
    tasks.own(prober.run(), name="prober")
    for discovery in discoveries(settings, pool):
        stack.push_async_callback(discovery.close)
        tasks.own(discovery.run(), name="discovery")
    if lifecycle.announce is not None:
        tasks.own(lifecycle.announce(pool), name="announce")
    canary = _canary(settings, process, pool, metrics, tasks)
    admission = _admission(settings, process, metrics, tasks, canary)
    digests = TenantDigests(
        tenant_secret(settings, process), frozenset(settings.learn_from_tenants)
    )
    conversations = _conversations(settings, metrics, tasks)
    serving = Serving(
        admission,
        pool,
        prober,
        metrics,
        digests=digests,
        tokenizer=PredictionTokenizer(
            max_tokens=settings.request.max_prediction_tokens,
            timeout_seconds=settings.request.tokenize_seconds,
        ),
        pacers=_pacers(settings, metrics, stack),
        conversations=conversations,
        canary=canary,
        # When a worker dies, every request that ran on it may be replayed once.
        budget=RetryBudget(ratio=settings.upstream.retry_ratio, capacity=_running_share(settings)),
        policy=_serving_policy(settings),
    )
    lifecycle.end_requests = serving.end_all
    return Services(
        admission,
        pool,
        serving,
        supervisor,
        conversations,
        canary,
        lambda: lifecycle.draining,
        digests=digests,
        live=start_sampler(settings, process, pool, supervisor, metrics, tasks),
    )


def _router(settings: GatewaySettings) -> Router | None:
    chosen = settings.routing
    if chosen.rule == "least_loaded":
        return None
    return Router(most_load=chosen.most_load)


def _prober(settings: GatewaySettings, pool: Pool) -> Prober:
    chosen = settings.upstream
    return Prober(
        pool,
        ProbePolicy(
            interval_seconds=chosen.probe_seconds,
            timeout_seconds=chosen.probe_timeout_seconds,
            failures=chosen.probe_failures,
            models_seconds=chosen.models_seconds,
        ),
    )


def _serving_policy(settings: GatewaySettings) -> ServingPolicy:
    chosen = settings.request
    return ServingPolicy(
        wait_for_worker_seconds=chosen.wait_for_worker_seconds,
        request_seconds=chosen.total_seconds,
        max_replays=chosen.max_replays,
        default_max_tokens=chosen.default_max_tokens,
        held_answer_bytes=chosen.held_answer_bytes,
        max_frame_bytes=settings.stream.max_frame_bytes,
        client_stuck_seconds=settings.stream.client_stuck_seconds,
        resume_streams=settings.stream.resume,
        pacing=settings.pacing.mode,
        model_pacing=settings.pacing.models,
    )


def _canary(
    settings: GatewaySettings,
    process: ProcessContext,
    pool: Pool,
    metrics: GatewayMetrics,
    tasks: Tasks,
) -> Canary:
    chosen = settings.canary

    def on_change(model: str, source: str, shut: bool) -> None:
        metrics.source_shut(model, source, shut)
        if shut:
            log.error("source_shut", model=model, source=source, until="specgate canary open")
        else:
            log.info("source_opened", model=model, source=source)

    folder = process.socket_dir
    canary = Canary(
        CanaryPolicy(chosen.share, chosen.max_tokens, chosen.margin),
        Defects(
            None if folder is None else folder / "canary.json",
            shut_after=chosen.shut_after,
            on_change=on_change,
        ),
        TimeBudget(chosen.most_time / settings.processes),
        metrics,
        find_worker=pool.find,
        random=Random(),  # noqa: S311  # chooses what to watch
    )
    tasks.own(canary.run(), name="canary")
    tasks.own(canary.follow(), name="canary-defects")
    return canary


def _admission(
    settings: GatewaySettings,
    process: ProcessContext,
    metrics: GatewayMetrics,
    tasks: Tasks,
    canary: Canary,
) -> Admission:
    """Build admission; a background task watches the key file."""

    def on_change(running: int, queued: int) -> None:
        metrics.slots_changed(running, queued)
        canary.slots_changed(running, queued)

    slots = Slots(
        running=_running_share(settings),
        queued=_share(settings.admission.max_queued_requests, settings),
        timeout_seconds=settings.admission.queue_timeout_seconds,
        on_change=on_change,
    )
    limits = _limits(settings, process, metrics, tasks)
    most_bytes = _share(settings.admission.max_bytes_in_flight, settings)
    if settings.keys.file is None:  # all callers are one tenant
        in_flight = BytesInFlight(most=most_bytes, most_of_tenant=most_bytes)
        return Admission(None, limits, slots, in_flight)
    of_tenant = ceil(most_bytes * settings.admission.tenant_bytes_ratio)
    in_flight = BytesInFlight(most=most_bytes, most_of_tenant=of_tenant)
    defaults = KeyLimits(
        settings.keys.requests_per_minute,
        settings.keys.tokens_per_minute,
        settings.keys.concurrent_requests,
    )
    watched = WatchedKeyFile(settings.keys.file, defaults=defaults)
    tasks.own(_follow(watched, settings.keys.reload_seconds), name="keys")

    def ring() -> KeyRing:
        return watched.ring  # not bound once: the task above replaces it

    return Admission(ring, limits, slots, in_flight)


def _limits(
    settings: GatewaySettings, process: ProcessContext, metrics: GatewayMetrics, tasks: Tasks
) -> Limits:
    """The limits of this gateway, or those that it shares with its replicas."""
    ledger = Ledger(process.ledger, process=process.index)
    tasks.stack.callback(ledger.close)
    local, chosen = LocalLimits(ledger), settings.limits
    metrics.limits_store_up.set(int(chosen.store is None))
    if chosen.store is None:
        return local

    def on_change(up: bool, reason: str) -> None:
        metrics.limits_store_up.set(int(up))
        if up:
            log.info("limits_store_up")
        else:
            log.error("limits_store_down", error=reason, until_it_is_up=chosen.when_unreachable)

    password = read_secret(chosen.password_file)
    limits = open_store_limits(
        chosen.store,
        password=None if password is None else password.get_secret_value(),
        timeout_seconds=chosen.timeout_seconds,
        instead=local if chosen.when_unreachable == "open" else None,
        lease_seconds=chosen.lease_seconds,
        on_change=on_change,
        observe=metrics.limits_store_seconds.observe,
    )
    tasks.own(limits.run(), name="limits")
    return limits


def _conversations(
    settings: GatewaySettings, metrics: GatewayMetrics, tasks: Tasks
) -> Conversations:
    """What is kept of `/v1/responses`; a background task removes what is too old or too much."""
    chosen = settings.responses
    password = read_secret(chosen.password_file)
    store = open_store(
        chosen.store,
        chosen.file,
        password=None if password is None else password.get_secret_value(),
        timeout_seconds=chosen.timeout_seconds,
    )
    conversations = Conversations(
        store,
        ConversationPolicy(
            bounds=Bounds(
                ttl_seconds=ceil(chosen.ttl_hours * 3600),
                tenant_bytes=chosen.max_bytes_per_tenant,
                total_bytes=chosen.max_bytes,
            ),
            max_history_bytes=settings.admission.max_body_bytes,
            wait_seconds=chosen.timeout_seconds,
            close_seconds=2 * chosen.timeout_seconds,
        ),
        ConversationMeters(
            stored=metrics.response_stored,
            looked_up=metrics.response_looked_up,
            swept=metrics.responses_swept,
        ),
    )
    tasks.stack.push_async_callback(conversations.close)
    if store is not None:
        tasks.own(conversations.run(), name="responses")
    return conversations


def _running_share(settings: GatewaySettings) -> int:
    """How many requests this process may run at a time."""
    return _share(settings.admission.max_running_requests, settings)


async def _follow(watched: WatchedKeyFile, every_seconds: float) -> None:
    while True:
        await asyncio.sleep(every_seconds)
        try:
            if watched.refresh():
                log.info("keys_reloaded", keys=len(watched.ring))
        except (ConfigError, OSError) as error:
            log.error("keys_unreadable", error=str(error))


def _share(total: int, settings: GatewaySettings) -> int:
    """This process's share of a limit of the whole gateway."""
    return ceil(total / settings.processes)


def _pacers(settings: GatewaySettings, metrics: GatewayMetrics, stack: AsyncExitStack) -> Pacers:
    """Build them on the running loop; `stack` stops the wheel."""
    chosen = settings.pacing
    wheel = Wheel(asyncio.get_running_loop())
    stack.callback(wheel.close)
    return Pacers(
        wheel,
        stream=StreamPolicy(
            keep_alive_seconds=settings.stream.keep_alive_seconds,
            client_stuck_seconds=settings.stream.client_stuck_seconds,
        ),
        smooth=SmoothPolicy(chosen.max_delay_ms / 1000, chosen.piece_ms / 1000),
        private=PrivatePolicy(
            tick_seconds=chosen.private_tick_ms / 1000,
            packet_bytes=chosen.private_packet_bytes,
            start_seconds=chosen.private_start_ms / 1000,
            min_seconds=chosen.private_least_seconds,
        ),
        meters=PacingMeters(
            streams=metrics.pacing_began,
            added_smooth=metrics.added_smooth.observe,
            added_private=metrics.added_private.observe,
            depth=metrics.pacing_depth.observe,
        ),
    )
