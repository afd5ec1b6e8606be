"""A small disk for the service's snapshots that can be filled and emptied.

A tmpfs in a mount namespace that the service is started in: no other process sees it, no root is
needed where user namespaces are allowed, and it ends with the service. Other processes reach it
through `/proc/PID/root`.
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from loadtest.processes import RunError, run_to_end

_SIZE = "size=16m,mode=700"
_PIECE = b"\0" * 65_536
_FILLER = "filler"
_TRY_SECONDS = 10.0


class SmallDisk:
    """The disk at `folder`, for processes started with `command`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def flaw(self) -> str | None:
        """Why this machine does not allow such a disk; None if it does."""
        try:
            await run_to_end(*self.command(["true"]), seconds=_TRY_SECONDS)
        except (RunError, OSError) as error:
            return str(error) or "unshare or mount failed"
        return None

    def command(self, arguments: Sequence[str]) -> list[str]:
        """The command that has `arguments` run with the disk; its process id stays the same."""
        as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
        script = f'mount -t tmpfs -o {_SIZE} chaos "$1" && shift && exec "$@"'
        return [
            "unshare",
            "--mount",
            *as_root,
            "sh",
            "-c",
            script,
            "sh",
            str(self._folder),
            *arguments,
        ]

    def seen_by(self, pid: int) -> Path:
        """The folder as a process that runs with the disk sees it."""
        return Path(f"/proc/{pid}/root") / self._folder.relative_to("/")

    def fill(self, pid: int) -> None:
        """Leave no room.

        Raises:
            OSError: It is not there.
        """
        with (self.seen_by(pid) / _FILLER).open("ab", buffering=0) as filler:
            try:
                while True:
                    filler.write(_PIECE)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def clear(self, pid: int) -> None:
        """Empty the disk."""
        (self.seen_by(pid) / _FILLER).unlink(missing_ok=True)
