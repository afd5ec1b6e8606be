"""Start the gateway's own worker, and end it with the gateway."""

import sys

import structlog

from gateway.assembly.process import Lifecycle, ProcessContext
from gateway.assembly.tasks import Tasks
from gateway.settings import GatewaySettings
from gateway.supervisor import (
    RESTART_REASONS,
    Backoff,
    Supervisor,
    SupervisorPolicy,
    WorkerCommand,
    WorkerRefusedError,
)
from gateway.telemetry import GatewayMetrics
from gateway.upstream import Worker

log = structlog.get_logger(__name__)


def supervise(
    settings: GatewaySettings,
    process: ProcessContext,
    worker: Worker,
    metrics: GatewayMetrics,
    tasks: Tasks,
) -> Supervisor:
    """Start the worker; it is ended when the other processes of the gateway are gone."""
    supervisor = _supervisor(settings, process, worker, metrics)
    tasks.own(_run(supervisor, tasks.lifecycle), name="supervisor")
    tasks.stack.push_async_callback(_wait_for_others, tasks.lifecycle)
    return supervisor


def _supervisor(
    settings: GatewaySettings, process: ProcessContext, worker: Worker, metrics: GatewayMetrics
) -> Supervisor:
    socket_path = worker.client.address.socket_path
    assert socket_path is not None
    metrics.expect_restarts(worker.id, RESTART_REASONS)
    assert process.profile is not None
    chosen = settings.supervisor
    arguments = ["-m", "engine", "--config", str(process.profile), "--uds", socket_path]
    return Supervisor(
        worker.id,
        WorkerCommand((sys.executable, *arguments, "--die-with-parent"), chosen.log_file),
        worker.client,
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


async def _run(supervisor: Supervisor, lifecycle: Lifecycle) -> None:
    try:
        await supervisor.run()
    except WorkerRefusedError as error:
        log.error("worker_refused", last_lines=str(error).splitlines())
        lifecycle.fail(str(error))


async def _wait_for_others(lifecycle: Lifecycle) -> None:
    """Let the other processes finish their streams, unless the worker has failed."""
    if lifecycle.others_gone is not None and lifecycle.failed is None:
        await lifecycle.others_gone()
