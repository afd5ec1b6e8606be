"""Progress messages while the gateway starts, then an example request."""

import asyncio
import json
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from gateway.settings import GatewaySettings
from gateway.upstream import Pool

_TERMINAL_SECONDS = 0.2
_LINE_SECONDS = 10.0
_ASK_SECONDS = 1.0
_SPINNER = "|/-\\"

ReadyModels = Callable[[], Awaitable[Sequence[str] | None]]
"""Names of the models that are served; None while no worker is up."""


@dataclass(frozen=True, slots=True)
class Announcer:
    """Writes progress to stderr until the gateway is ready.

    Attributes:
        url: Where the gateway listens.
        log_file: File with the worker's output; None: it goes to stderr as well.
        keys: Whether callers need a key.
        page: Whether the gateway has a page.
    """

    url: str
    log_file: Path | None
    keys: bool
    page: bool = False

    async def watch_pool(self, pool: Pool) -> None:
        """Watch a gateway that runs in this process."""

        async def ready_models() -> Sequence[str] | None:
            return list(pool.models) if pool.is_ready else None

        await self._watch(ready_models)

    async def watch_url(self) -> None:
        """Watch a gateway that runs in child processes."""
        async with httpx.AsyncClient(
            base_url=self.url,
            timeout=_ASK_SECONDS,
            verify=False,  # noqa: S501  # our own address, without TLS: loads no certificates
            trust_env=False,
        ) as client:
            await self._watch(lambda: _ask_for_models(client))

    async def _watch(self, ready_models: ReadyModels) -> None:
        started = time.monotonic()
        if self.log_file is not None:
            sys.stderr.write(f"specgate: the worker's output goes to {self.log_file}\n")
        models = await _wait(ready_models, started)
        took = time.monotonic() - started
        sys.stderr.write(f"specgate: ready after {took:.0f} s on {self.url}/v1\n")
        if self.page:
            sys.stderr.write(f"specgate: a page to try it is on {self.url}/\n")
        sys.stderr.write("\n")
        sys.stderr.write(_example(self.url, next(iter(models), "MODEL"), keys=self.keys))
        sys.stderr.flush()


def announcer(settings: GatewaySettings, sock: socket.socket) -> Announcer:
    """The announcer of a gateway with these settings that listens on `sock`."""
    host, port = sock.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return Announcer(
        url=f"http://{shown}:{port}",
        log_file=None if settings.workers else settings.supervisor.log_file,
        keys=settings.keys.file is not None,
        page=settings.page,
    )


async def _wait(ready_models: ReadyModels, started: float) -> Sequence[str]:
    terminal = sys.stderr.isatty()
    shown = 0.0
    turn = 0
    while (models := await ready_models()) is None:
        elapsed = time.monotonic() - started
        if terminal:
            turn += 1
            spinner = _SPINNER[turn % len(_SPINNER)]
            sys.stderr.write(f"\r{spinner} waiting for a worker, {elapsed:.0f} s ")
            sys.stderr.flush()
        elif elapsed - shown >= _LINE_SECONDS:
            shown = elapsed
            sys.stderr.write(f"specgate: waiting for a worker, {elapsed:.0f} s\n")
        await asyncio.sleep(_TERMINAL_SECONDS)
    if terminal:
        sys.stderr.write("\r\033[K")
    return models


async def _ask_for_models(client: httpx.AsyncClient) -> Sequence[str] | None:
    """Ask a gateway's `/health/workers`, which needs no key."""
    try:
        answer = await client.get("/health/workers")
    except httpx.TransportError:
        return None  # the processes are still starting
    workers = answer.json()["workers"]
    up = [worker["models"] for worker in workers if worker["up"]]
    return None if not up else sorted({model for models in up for model in models})


def _example(url: str, model: str, *, keys: bool) -> str:
    body = json.dumps(
        {"model": model, "messages": [{"role": "user", "content": "Say hello."}], "stream": True}
    )
    key = " -H 'authorization: Bearer YOUR_KEY'" if keys else ""
    return (
        f"  curl -N {url}/v1/chat/completions{key} \\\n"
        f"    -H 'content-type: application/json' \\\n"
        f"    -d '{body}'\n\n"
    )
