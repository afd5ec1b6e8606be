"""Build the workers of the settings: by URL, by DNS name, or the gateway's own."""

from collections.abc import Iterator
from functools import partial
from urllib.parse import urlsplit

from pydantic import SecretStr

from gateway.assembly.process import ProcessContext
from gateway.errors import ConfigError
from gateway.settings import DISCOVERED_SCHEME, GatewaySettings, read_secret
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
