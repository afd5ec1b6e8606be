"""A service with its Prometheus and clients."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.e2e.monitoring.prometheus import Prometheus, running_prometheus
from tests.e2e.monitoring.traffic import ENGINE_SETTINGS, SETTINGS, Clients, create_keys
from tests.e2e.service import running_service


@dataclass(frozen=True)
class Live:
    """A Prometheus and the clients of the service that it scrapes."""

    prometheus: Prometheus
    clients: Clients


@contextmanager
def live(folder: Path) -> Iterator[Live]:
    """Start a service with few slots, and a Prometheus that scrapes it.

    Args:
        folder: For logs, keys and data.
    """
    keys = create_keys(folder)
    with ExitStack() as stack:
        service = stack.enter_context(
            running_service(folder, engine=ENGINE_SETTINGS, keys__file=str(keys.file), **SETTINGS)
        )
        prometheus = stack.enter_context(running_prometheus(folder, service.url))
        http = stack.enter_context(httpx.Client())
        yield Live(prometheus, Clients(service, keys, http))
