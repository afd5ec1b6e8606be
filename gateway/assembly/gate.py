"""The gate: keys that are followed, limits, and this process's share of the places."""

import asyncio
from math import ceil

import structlog

from gateway.admission import Gate, KeyLimits, KeyRing, Ledger, Limits, Places, WatchedKeyFile
from gateway.assembly.process import Place
from gateway.assembly.tasks import Tasks
from gateway.errors import ConfigError
from gateway.settings import GatewaySettings
from gateway.telemetry import GatewayMetrics

log = structlog.get_logger(__name__)


def build_gate(
    settings: GatewaySettings, place: Place, metrics: GatewayMetrics, tasks: Tasks
) -> Gate:
    """Build it; its key file is read anew in the background."""
    ledger = Ledger(place.ledger, process=place.index)
    tasks.stack.callback(ledger.close)
    places = Places(
        running=running_share(settings),
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


def running_share(settings: GatewaySettings) -> int:
    """How many requests this process may run at once."""
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
    """This process's part of a number that is set for the whole gateway."""
    return ceil(total / settings.processes)
