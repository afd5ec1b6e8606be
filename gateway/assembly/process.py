"""One process of the gateway: its context among several, its background tasks, its shutdown."""

import asyncio
import os
import secrets
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from gateway.errors import ConfigError
from gateway.settings import GatewaySettings, cache_dir, read_secret
from gateway.upstream import Pool

log = structlog.get_logger(__name__)

_SECRET_BYTES = 32


def _nothing() -> None:
    pass


@dataclass(slots=True)
class Lifecycle:
    """How the server and the app coordinate a shutdown.

    Attributes:
        draining: SIGTERM was received; the gateway is no longer ready.
        failed: Why the gateway cannot continue; None while it can.
        stop: Called by the app when it cannot continue.
        end_requests: Called by the server when the time for running requests is over.
        others_gone: Awaited before the supervised worker is ended, because other processes use it.
        announce: Runs in the background and reports the progress of the start.
    """

    draining: bool = False
    failed: str | None = None
    stop: Callable[[], None] = _nothing
    end_requests: Callable[[], None] = _nothing
    others_gone: Callable[[], Coroutine[None, None, None]] | None = None
    announce: Callable[[Pool], Coroutine[None, None, None]] | None = None

    def fail(self, reason: str) -> None:
        """Stop the gateway, because it cannot continue."""
        self.failed = reason
        self.stop()


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """What one process of the gateway gets from its parent.

    Attributes:
        index: Number of this process; 0 supervises the worker.
        ledger: File descriptor of the shared limits; None for a single process.
        socket_dir: Folder of the supervised worker's socket, the same for all processes.
        profile: The profile that the worker reads.
    """

    index: int = 0
    ledger: int | None = None
    socket_dir: Path | None = None
    profile: Path | None = None


@dataclass(frozen=True, slots=True)
class Tasks:
    """Background tasks, cancelled when `stack` closes; one that fails stops the gateway."""

    stack: AsyncExitStack
    lifecycle: Lifecycle

    def own(self, work: Coroutine[None, None, None], *, name: str) -> None:
        """Start a task."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._check)

        async def end() -> None:
            task.cancel()
            await asyncio.wait({task})

        self.stack.push_async_callback(end)

    def _check(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background_task_failed", task=task.get_name(), exc_info=error)
            self.lifecycle.fail(f"{task.get_name()}: {error!r}")


def tenant_secret(settings: GatewaySettings, process: ProcessContext) -> bytes:
    """The secret of the tenants' digests, the same in all processes of this gateway.

    Without the setting it is random. The gateway's own worker keeps the suffix index of a tenant
    over restarts under its digest, so the secret is kept beside it; else it lives as long as the
    gateway.

    Raises:
        ConfigError: Its file cannot be read or written.
    """
    chosen = read_secret(settings.tenant_secret_file)
    if chosen is not None:
        return chosen.get_secret_value().encode()
    if not settings.workers:
        return _kept_secret(cache_dir() / "tenant-secret")
    if settings.keys.file is not None and process.index == 0:
        log.info("tenant_secret_is_random", setting="gateway.tenant_secret_file")
    if process.socket_dir is None:
        return secrets.token_bytes(_SECRET_BYTES)
    return _kept_secret(process.socket_dir / "tenant-secret")


def _kept_secret(path: Path) -> bytes:
    """The secret in a file that only we may read, which the first process creates."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, complete = tempfile.mkstemp(dir=path.parent)  # mode 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_SECRET_BYTES))
            with suppress(FileExistsError):
                os.link(complete, path)  # never shows an incomplete file, nor replaces one
        finally:
            os.unlink(complete)
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
