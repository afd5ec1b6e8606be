"""Build and connect the objects of a process; they are closed in reverse order."""

from contextlib import AsyncExitStack
from random import Random

from gateway.api import Services
from gateway.assembly.admission import build_admission, running_share
from gateway.assembly.pacers import build_pacers
from gateway.assembly.process import Lifecycle, ProcessContext
from gateway.assembly.supervision import supervise
from gateway.assembly.tasks import Tasks
from gateway.assembly.workers import discoveries, known_workers
from gateway.serving import Serving, ServingPolicy
from gateway.settings import GatewaySettings
from gateway.telemetry import GatewayMetrics
from gateway.upstream import Pool, PredictionTokenizer, ProbePolicy, Prober, RetryBudget


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
    admission = build_admission(settings, process, metrics, tasks)
    serving = Serving(
        admission,
        pool,
        prober,
        metrics,
        tokenizer=PredictionTokenizer(
            max_tokens=settings.request.max_prediction_tokens,
            timeout_seconds=settings.request.tokenize_seconds,
        ),
        pacers=build_pacers(settings, metrics, stack),
        # When a worker dies, every request that ran on it may be replayed once.
        budget=RetryBudget(ratio=settings.upstream.retry_ratio, capacity=running_share(settings)),
        policy=_serving_policy(settings),
    )
    lifecycle.end_requests = serving.end_all
    return Services(admission, pool, serving, supervisor, lambda: lifecycle.draining)


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
        held_answer_bytes=chosen.held_answer_bytes,
        max_frame_bytes=settings.stream.max_frame_bytes,
        client_stuck_seconds=settings.stream.client_stuck_seconds,
        pacing=settings.pacing.mode,
        model_pacing=settings.pacing.models,
    )
