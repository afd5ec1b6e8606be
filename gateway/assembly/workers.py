"""Build the workers of the settings: by URL, by DNS name, or the gateway's own, supervised."""

import sys
from collections.abc import Iterator
from functools import partial
from urllib.parse import urlsplit

import structlog
from pydantic import SecretStr

from gateway.assembly.process import Lifecycle, ProcessContext, Tasks
from gateway.errors import ConfigError
from gateway.settings import DISCOVERED_SCHEME, GatewaySettings, read_secret
from gateway.supervisor import (
    RESTART_REASONS,
    Backoff,
    Supervisor,
    SupervisorPolicy,
    WorkerCommand,
    WorkerRefusedError,
)
from gateway.telemetry import GatewayMetrics
from gateway.types import WorkerId
from gateway.upstream import (
    ConnectionTimeouts,
    Discovery,
    DiscoveryPolicy,
    EjectionPolicy,
    Outlier,
    Pool,
    Worker,
    WorkerAddress,
    WorkerClient,
)

log = structlog.get_logger(__name__)

_OWN_WORKER = WorkerId("local")


def known_workers(settings: GatewaySettings, process: ProcessContext) -> list[Worker]:
    """The workers that are known from the start; the caller closes their clients.

    Raises:
        ConfigError: There is no worker, and no folder for the socket of an own one.
    """
    key = read_secret(settings.upstream.api_key_file)
    return [_worker(settings, key, address) for address in _addresses(settings, process)]


def discoveries(settings: GatewaySettings, pool: Pool) -> Iterator[Discovery]:
    """One discovery for each DNS name; it adds and removes workers.

    The workers' key is read once, so a worker can join while the file is missing.
    """
    key = read_secret(settings.upstream.api_key_file)
    for name in map(urlsplit, settings.workers):
        if name.scheme == DISCOVERED_SCHEME:
            yield Discovery(
                pool,
                name.hostname or "",
                name.port or 80,
                make=partial(_worker, settings, key),
                policy=DiscoveryPolicy(
                    interval_seconds=settings.upstream.resolve_seconds,
                    timeout_seconds=settings.upstream.probe_timeout_seconds,
                ),
            )


def _addresses(settings: GatewaySettings, process: ProcessContext) -> list[WorkerAddress]:
    if settings.workers:
        urls = (url for url in settings.workers if urlsplit(url).scheme != DISCOVERED_SCHEME)
        return [WorkerAddress(urlsplit(url).netloc, url.rstrip("/")) for url in urls]
    if process.socket_dir is None:
        raise ConfigError("gateway.workers is empty, and no folder for a worker's socket is given")
    return [WorkerAddress(_OWN_WORKER, "http://worker", str(process.socket_dir / "worker.sock"))]


def _worker(settings: GatewaySettings, key: SecretStr | None, address: WorkerAddress) -> Worker:
    connection = WorkerClient(
        address,
        ConnectionTimeouts(settings.request.connect_seconds, settings.request.silence_seconds),
        api_key=None if key is None else key.get_secret_value(),
    )
    ejection = EjectionPolicy(
        failures=settings.upstream.breaker_failures,
        base_seconds=settings.upstream.breaker_seconds,
        max_seconds=settings.upstream.breaker_max_seconds,
    )
    return Worker(WorkerId(address.name), connection, Outlier(ejection))


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
