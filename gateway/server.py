"""Run the app with uvicorn: listening socket, signals, and the drain after a signal."""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator
from functools import partial

import structlog
import uvicorn
from fastapi import FastAPI

from gateway.assembly import Lifecycle
from gateway.errors import ConfigError
from gateway.http_protocol import GatewayProtocol
from gateway.settings import DrainSettings

log = structlog.get_logger(__name__)

_BACKLOG = 2048
# By default the kernel's buffer grows to 4 MiB per connection, and the socket becomes writable when
# a third of it is free: a slow client would look stuck for minutes.
_SEND_BUFFER_BYTES = 2**18
_KEEP_ALIVE_SECONDS = 75
_GC_THRESHOLDS = (5_000, 10, 50)
"""A full collection with a thousand streams stops all of them for a tenth of a second. With
Python's defaults there is one every few seconds, which finds almost nothing, because streams leave
no reference cycles."""
_CLOSING_SECONDS = 5.0
"""Time to send the last bytes after running requests were told to end."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigError: The address is in use or not one of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family=family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)  # inherited
    try:
        sock.bind((host, port))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise ConfigError(f"gateway.port {port}: {error.strerror}") from error
    sock.set_inheritable(True)
    return sock


def _tell_nobody(_: str) -> None:
    pass


class _Server(uvicorn.Server):
    """uvicorn without its signal handling: here SIGTERM begins a drain."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then exclude the objects that exist by now from garbage collection.

        Otherwise a full collection would stop every stream for tens of milliseconds.
        """
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def drain_notice(running: int, seconds: float) -> str:
    """What a drain waits for, in a sentence.

    Args:
        running: Number of requests that run or wait.
        seconds: The time that they have.
    """
    if running == 0:
        return "stopping"
    requests = "1 running request" if running == 1 else f"{running} running requests"
    return f"waiting for {requests}, at most {seconds:g} s; press Ctrl-C again to end at once"


class Drain:
    """The steps after a signal; a second signal ends everything at once."""

    def __init__(
        self,
        server: uvicorn.Server,
        lifecycle: Lifecycle,
        settings: DrainSettings,
        tell: Callable[[str], None] = _tell_nobody,
    ) -> None:
        self._server = server
        self._lifecycle = lifecycle
        self._settings = settings
        self._tell = tell
        self._begun = False

    def begin(self, *, accept_seconds: float) -> None:
        """Become unready; stop accepting after `accept_seconds`; then let requests finish."""
        if self._begun:
            self._tell("ending at once")
            self.force()
            return
        self._begun = self._lifecycle.draining = True
        seconds = accept_seconds + self._settings.finish_seconds
        running = self._running()
        self._tell(drain_notice(running, seconds))
        log.info(
            "draining",
            accept_seconds=accept_seconds,
            finish_seconds=self._settings.finish_seconds,
            running_requests=running,
        )
        loop = asyncio.get_running_loop()
        loop.call_later(accept_seconds, self._stop_accepting)
        loop.call_later(seconds, self._end_requests)

    def force(self) -> None:
        """End without waiting."""
        self._lifecycle.end_requests()
        self._server.should_exit = self._server.force_exit = True

    def _stop_accepting(self) -> None:
        self._server.should_exit = True

    def _end_requests(self) -> None:
        if self._running():
            self._tell("the time is over, ending the requests that still run")
        self._lifecycle.end_requests()

    def _running(self) -> int:
        return len(self._server.server_state.tasks)


def make_server(app: FastAPI, settings: DrainSettings) -> uvicorn.Server:
    """The uvicorn server of this gateway; it handles no signals."""
    config = uvicorn.Config(
        app,
        http=GatewayProtocol,
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=round(settings.finish_seconds + _CLOSING_SECONDS),
    )
    return _Server(config)


async def serve(
    app: FastAPI,
    sock: socket.socket,
    lifecycle: Lifecycle,
    settings: DrainSettings,
    tell: Callable[[str], None] = _tell_nobody,
) -> int:
    """Serve until a signal or a failure ends it; returns the exit status.

    Args:
        app: The gateway.
        sock: Where it listens.
        lifecycle: The app's.
        settings: Times of the drain.
        tell: Gets a sentence for each step of the drain.
    """
    server = make_server(app, settings)
    drain = Drain(server, lifecycle, settings, tell)
    lifecycle.stop = drain.force
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(
        signal.SIGTERM, partial(drain.begin, accept_seconds=settings.accept_seconds)
    )
    # After Ctrl-C there is no load balancer that has to notice first.
    loop.add_signal_handler(signal.SIGINT, partial(drain.begin, accept_seconds=0.0))
    await server.serve(sockets=[sock])
    if server.force_exit:
        await server.lifespan.shutdown()  # uvicorn omits it, but the worker must be stopped
    if lifecycle.failed is not None:
        sys.stderr.write(f"specgate: {lifecycle.failed}\n")
        return 2
    tell("stopped")
    return 0 if server.started else 3


class ParentWatch:
    """Waits until the parent process closes stdin.

    Then the other processes of this gateway have ended, or the parent has died.
    """

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._gone = asyncio.Event()
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read)

    async def gone(self) -> None:
        """Wait until stdin is closed."""
        await self._gone.wait()

    def _read(self) -> None:
        if os.read(sys.stdin.fileno(), 1):
            return
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._gone.set()
        if not self._lifecycle.draining:
            signal.raise_signal(signal.SIGTERM)
