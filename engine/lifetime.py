"""Ties the life of a worker to the process that started it (Linux)."""

import ctypes
import os
import signal
from types import FrameType
from typing import NoReturn

_PR_SET_PDEATHSIG = 1  # Source: prctl(2)


def die_with_parent(parent_pid: int, *, death_signal: signal.Signals = signal.SIGTERM) -> None:
    """Have the kernel send a signal to this process when its parent ends, however it ends.

    Args:
        parent_pid: The parent as this process saw it first, before any slow import.
        death_signal: What to send.

    Raises:
        SystemExit: The parent has already gone, so there is nobody to serve.
        OSError: The kernel refused.

    Source: prctl(2). The setting covers this process alone, not its children.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    # The parent may have ended before the line above took effect; then no signal comes.
    if os.getppid() != parent_pid:
        raise SystemExit(0)


def exit_on_terminate() -> None:
    """Turn SIGTERM into SystemExit, so that `finally` blocks run and children are stopped."""

    def leave(_number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)
