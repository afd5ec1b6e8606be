"""Discovers workers by DNS: each address of a name is a worker.

A headless Service in Kubernetes is such a name: it lists the pods that are ready. A worker that is
no longer listed has left: it gets no new requests. Its text streams go on with another worker, and
its other requests end there.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import structlog

from gateway.upstream.connection_pool import WorkerAddress
from gateway.upstream.pool import Pool
from gateway.upstream.worker import Worker

log = structlog.get_logger(__name__)

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host name; raises OSError if it has none or the lookup fails."""


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Look up all addresses of a name.

    Raises:
        OSError: It has none, or the lookup failed.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


@dataclass(frozen=True, slots=True)
class DiscoveryPolicy:
    """How often to look up the name, and how long to wait."""

    interval_seconds: float
    timeout_seconds: float


@dataclass(slots=True)
class Discovery:
    """Keeps the workers of one DNS name in the pool; the owner cancels `run`.

    Args:
        pool: The pool that they join and leave.
        host: The name.
        port: The port of every worker.
        make: Makes a worker from an address.
        policy: Times.
        resolve: Looks up a name.
    """

    pool: Pool
    host: str
    port: int
    make: Callable[[WorkerAddress], Worker]
    policy: DiscoveryPolicy
    resolve: Resolve = resolve_host
    _known: dict[str, Worker] = field(default_factory=dict, init=False)
    _leaving: list[Worker] = field(default_factory=list, init=False)
    _answered: bool = field(default=True, init=False)

    async def run(self) -> None:
        """Look up the name regularly, until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(self.policy.interval_seconds)

    async def refresh(self) -> None:
        """Look up the name once.

        If the lookup fails, all workers stay. Probes decide whether they are up, and a DNS outage
        must not remove them.
        """
        try:
            async with asyncio.timeout(self.policy.timeout_seconds):
                found = set(await self.resolve(self.host, self.port))
        except OSError as error:  # includes TimeoutError
            if self._answered:
                log.warning("workers_not_resolved", host=self.host, error=str(error))
            self._answered = False
        else:
            self._answered = True
            self._follow(found)
        await self._close_idle()

    async def close(self) -> None:
        """Close the connections to all its workers."""
        for worker in (*self._known.values(), *self._leaving):
            await worker.client.close()

    def _follow(self, found: set[str]) -> None:
        for address in sorted(found - self._known.keys()):
            host = f"[{address}]" if ":" in address else address
            name = f"{host}:{self.port}"
            self._known[address] = self.make(WorkerAddress(name, f"http://{name}"))
            self.pool.join(self._known[address])
            log.info("worker_joined", worker=name)
        for address in sorted(self._known.keys() - found):
            worker = self._known.pop(address)
            self.pool.leave(worker)
            self._leaving.append(worker)
            log.info("worker_left", worker=worker.id, in_flight=worker.in_flight)

    async def _close_idle(self) -> None:
        done = [worker for worker in self._leaving if worker.in_flight == 0]
        self._leaving = [worker for worker in self._leaving if worker.in_flight > 0]
        for worker in done:
            await worker.client.close()
