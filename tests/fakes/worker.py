"""The fake worker: a scripted stand-in for a vLLM 0.32 server, in a test's loop or as a process.

    async with FakeWorker() as worker:
        ...  # send requests to worker.url, look at worker.requests

`python -m tests.fakes.worker --port 9000` serves the same, controlled over `/_fake/state`
(GET, POST a StateChange) and `/_fake/requests` (GET, DELETE).
"""

import argparse
import asyncio
import contextlib
import signal
import sys
from collections import deque
from pathlib import Path
from typing import Self

import uvloop

from tests.fakes.http_connection import HttpConnection
from tests.fakes.routes import Routes
from tests.fakes.state import RecordedRequest, WorkerState


class FakeWorker:
    """One fake worker; may be stopped and started again on the same address.

    Args:
        port: Port on 127.0.0.1; zero takes a free one and keeps it over restarts.
        uds: Path of a Unix socket to serve instead.
        keep_requests: How many of the latest requests are remembered.
    """

    def __init__(
        self, *, port: int = 0, uds: Path | None = None, keep_requests: int = 1_000
    ) -> None:
        self.state = WorkerState()
        self.port = port
        self.uds = uds
        self._recorded: deque[RecordedRequest] = deque(maxlen=keep_requests)
        self._tokenized: deque[RecordedRequest] = deque(maxlen=keep_requests)
        self._connections: set[HttpConnection] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._routes = Routes(self.state, self._recorded, self._tokenized)
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Base URL over TCP; over a Unix socket, the URL that goes with its path."""
        return "http://worker" if self.uds is not None else f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[RecordedRequest]:
        """The latest requests to the endpoints that generate, oldest first."""
        return list(self._recorded)

    def forget_requests(self) -> None:
        """Forget the requests so far."""
        self._recorded.clear()

    @property
    def tokenize_requests(self) -> list[RecordedRequest]:
        """The latest requests to `/tokenize`, oldest first."""
        return list(self._tokenized)

    @property
    def active(self) -> int:
        """Answers that are running."""
        return self.state.active

    @property
    def connections(self) -> int:
        """Connections that are open."""
        return len(self._connections)

    @property
    def healthy(self) -> bool:
        """Whether `/health` answers 200; setting it to False makes it 503."""
        return self.state.health_status == 200

    @healthy.setter
    def healthy(self, value: bool) -> None:
        self.state.health_status = 200 if value else 503

    async def start(self) -> None:
        """Listen; on the same address as before when it ran already."""
        loop = asyncio.get_running_loop()
        if self.uds is not None:
            self.uds.unlink(missing_ok=True)
            self._server = await loop.create_unix_server(
                self._connection, path=str(self.uds), backlog=4096
            )
            return
        self._server = await loop.create_server(
            self._connection, host="127.0.0.1", port=self.port, backlog=4096
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop like a killed process: no more connections, open ones closed in mid-answer."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self._connections):
            connection.close_now()
        await self._quiet.wait()
        await self._server.wait_closed()
        self._server = None
        if self.uds is not None:
            self.uds.unlink(missing_ok=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _connection(self) -> HttpConnection:
        return HttpConnection(self._routes.serve, on_open=self._open, on_close=self._close)

    def _open(self, connection: HttpConnection) -> bool:
        self._connections.add(connection)
        self._quiet.clear()
        if self.state.fail_next_connections:
            self.state.fail_next_connections -= 1
            return False
        return True

    def _close(self, connection: HttpConnection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._quiet.set()


async def _serve_until_signalled(worker: FakeWorker) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with worker:
        where = str(worker.uds) if worker.uds is not None else worker.url
        sys.stdout.write(f"fake worker ready at {where}\n")
        sys.stdout.flush()
        await stopped.wait()


def main() -> None:
    """Serve one fake worker until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.worker", description=main.__doc__)
    address = parser.add_mutually_exclusive_group()
    address.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0: a free one")
    address.add_argument("--uds", type=Path, help="path of a Unix socket")
    arguments = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_serve_until_signalled(FakeWorker(port=arguments.port, uds=arguments.uds)))


if __name__ == "__main__":
    main()
