"""Build admission: watched keys, limits, and this process's share of the slots."""

import asyncio
from math import ceil

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
from gateway.assembly.process import ProcessContext
from gateway.assembly.tasks import Tasks
from gateway.errors import ConfigError
from gateway.settings import GatewaySettings, read_secret
from gateway.telemetry import GatewayMetrics

log = structlog.get_logger(__name__)


def build_admission(
    settings: GatewaySettings, process: ProcessContext, metrics: GatewayMetrics, tasks: Tasks
) -> Admission:
    """Build admission; a background task watches the key file."""
    slots = Slots(
        running=running_share(settings),
        queued=_share(settings.admission.max_queued_requests, settings),
        timeout_seconds=settings.admission.queue_timeout_seconds,
        on_change=metrics.slots_changed,
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


def running_share(settings: GatewaySettings) -> int:
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
