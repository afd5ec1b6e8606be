"""One process of the gateway: where it stands among several, and how it comes to its end."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path

from gateway.upstream import Pool


def _nothing() -> None:
    pass


@dataclass(slots=True)
class Lifecycle:
    """How the server and the app tell each other about the end.

    Attributes:
        draining: SIGTERM came: not ready any more.
        failed: Why the gateway cannot go on; None while it can.
        stop: Called by the app when it cannot go on.
        end_requests: Called by the server when running requests have had their time.
        others_gone: Awaited before the supervised worker is ended; other processes may use it.
        announce: Run in the background: tells people how the start goes.
    """

    draining: bool = False
    failed: str | None = None
    stop: Callable[[], None] = _nothing
    end_requests: Callable[[], None] = _nothing
    others_gone: Callable[[], Coroutine[None, None, None]] | None = None
    announce: Callable[[Pool], Coroutine[None, None, None]] | None = None

    def fail(self, reason: str) -> None:
        """The gateway cannot go on."""
        self.failed = reason
        self.stop()


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """This process among those of the gateway.

    Attributes:
        index: 0 is the one that supervises the worker.
        ledger: Descriptor of the shared limits; None for a single process.
        socket_dir: Folder of the supervised worker's socket, common to all processes.
        profile: Profile that the worker reads.
    """

    index: int = 0
    ledger: int | None = None
    socket_dir: Path | None = None
    profile: Path | None = None
