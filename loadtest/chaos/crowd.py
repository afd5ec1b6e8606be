"""The load under which faults happen: arrivals that do not wait for earlier requests."""

import asyncio
import json
import time
from collections.abc import Sequence
from itertools import cycle

import aiohttp

from loadtest.load import Arrival, Client, Ending, Outcome, Server, converse

_POLL_SECONDS = 0.1


class Crowd:
    """Sends a plan's requests in turn until it is stopped.

    Like a load balancer, it sends nothing while `/health/ready` says that the gateway drains or
    while connections are refused; requests that are due then are sent once the gateway is back.

    Args:
        client: Of the gateway.
        server: Whom it asks.
        plan: Arrivals; after the last one they start again.
        probe: What `probe` sends.

    Attributes:
        outcomes: Of every request that has ended, probes included.
        began: Requests that were sent, probes included.
    """

    def __init__(
        self, client: Client, server: Server, plan: Sequence[Arrival], probe: Arrival
    ) -> None:
        self.outcomes: list[Outcome] = []
        self.began = 0
        self._client = client
        self._server = server
        self._plan = plan
        self._probe = probe
        self._open = asyncio.Event()
        self._stopped = asyncio.Event()
        self._group = asyncio.TaskGroup()
        self._probing: asyncio.Task[None] | None = None
        self._under_way: dict[asyncio.Task[None], int] = {}

    async def run(self) -> None:
        """Send until `stop`; returns when the last answer has ended."""
        watching = asyncio.create_task(self._watch(), name="ready")
        try:
            async with self._group:
                await self._send_all()
        finally:
            watching.cancel()

    def stop(self) -> None:
        """Begin no more requests."""
        self._stopped.set()

    def probe(self) -> None:
        """Send a small request, unless one is running or the gateway is down.

        It may only be called while `run` runs.
        """
        if self._open.is_set() and (self._probing is None or self._probing.done()):
            self._probing = self._send(self._probe)

    def first_good_ns(self, *, sent_after_ns: int) -> int | None:
        """When the first request that was sent later than that was answered well, if any was."""
        found = None
        for outcome in reversed(self.outcomes):
            answer = outcome.answer
            if answer.ended_ns < sent_after_ns:
                break  # they are in the order of their ends
            if answer.ending is Ending.DONE and answer.recording.sent_ns >= sent_after_ns:
                found = answer.ended_ns
        return found

    def under_way(self, *, sent_before_ns: int) -> int:
        """How many requests that were sent before have not ended."""
        return sum(sent_ns < sent_before_ns for sent_ns in self._under_way.values())

    def _send(self, arrival: Arrival) -> asyncio.Task[None]:
        self.began += 1
        now_ns = time.monotonic_ns()
        task = self._group.create_task(
            converse(arrival, now_ns, self._client, self._server, self.outcomes)
        )
        self._under_way[task] = now_ns
        task.add_done_callback(self._under_way.pop)
        return task

    async def _send_all(self) -> None:
        previous = 0.0
        for arrival in cycle(self._plan):
            due = arrival.due_seconds
            pause, previous = (due - previous if due > previous else due), due
            try:
                async with asyncio.timeout(pause):
                    await self._stopped.wait()
                return
            except TimeoutError:
                await self._open.wait()
            self._send(arrival)

    async def _watch(self) -> None:
        while True:
            if await self._is_open():
                self._open.set()
            else:
                self._open.clear()
            await asyncio.sleep(_POLL_SECONDS)

    async def _is_open(self) -> bool:
        try:
            _, page = await self._client.get("/health/ready")
            return bool(json.loads(page).get("status") != "draining")
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return False
