"""Workers behind a DNS name: every address that the name has is one of them.

A headless Service of Kubernetes gives such a name: a worker is on it while it is ready, and leaves
it when it begins to end. Then it gets no more requests; those that it runs go on.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from gateway.upstream.client import WorkerAddress
from gateway.upstream.pool import Pool
from gateway.upstream.worker import Worker

log = structlog.get_logger(__name__)

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host name; raises OSError when nobody knows, or when it has none."""


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Ask the system's resolver for every address of a name.

    Raises:
        OSError: It has none, or the resolver failed.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


@dataclass(frozen=True, slots=True)
class DiscoveryPolicy:
    """How often to look, and how long to wait for an answer."""

    interval_seconds: float
    timeout_seconds: float


class Discovery:
    """Keeps the workers of one name in the pool; `run` is a task that its owner cancels.

    Args:
        pool: Where they join and leave.
        host: The name.
        port: Where each of them listens.
        make: Makes a worker of an address.
        policy: When to look.
        resolve: Tells the addresses of a name.
    """

    def __init__(  # what it joins, each used once
        self,
        pool: Pool,
        host: str,
        port: int,
        *,
        make: Callable[[WorkerAddress], Worker],
        policy: DiscoveryPolicy,
        resolve: Resolve = resolve_host,
    ) -> None:
        self._pool = pool
        self._host = host
        self._port = port
        self._make = make
        self._policy = policy
        self._resolve = resolve
        self._known: dict[str, Worker] = {}
        self._leaving: list[Worker] = []
        self._answered = True

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(self._policy.interval_seconds)

    async def refresh(self) -> None:
        """Look once.

        Without an answer all stay: whether they are up is for their probes to say, and a resolver
        that fails must not take the workers with it.
        """
        try:
            async with asyncio.timeout(self._policy.timeout_seconds):
                found = set(await self._resolve(self._host, self._port))
        except OSError as error:  # a timeout is one too
            if self._answered:
                log.warning("workers_not_resolved", host=self._host, error=str(error))
            self._answered = False
        else:
            self._answered = True
            self._follow(found)
        await self._close_idle()

    async def close(self) -> None:
        """Close the connections of all its workers."""
        for worker in (*self._known.values(), *self._leaving):
            await worker.connection.close()

    def _follow(self, found: set[str]) -> None:
        for address in sorted(found - self._known.keys()):
            shown = f"[{address}]" if ":" in address else address
            name = f"{shown}:{self._port}"
            self._known[address] = self._make(WorkerAddress(name, f"http://{name}"))
            self._pool.join(self._known[address])
            log.info("worker_joined", worker=name)
        for address in sorted(self._known.keys() - found):
            worker = self._known.pop(address)
            self._pool.leave(worker)
            self._leaving.append(worker)
            log.info("worker_left", worker=worker.id, in_flight=worker.in_flight)

    async def _close_idle(self) -> None:
        done = [worker for worker in self._leaving if worker.in_flight == 0]
        self._leaving = [worker for worker in self._leaving if worker.in_flight > 0]
        for worker in done:
            await worker.connection.close()
