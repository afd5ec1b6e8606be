"""One process of the gateway: its context among several, and its shutdown."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path

from gateway.upstream import Pool


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
