"""Ties a worker's lifetime to that of the process that started it (Linux)."""

import ctypes
import os
import signal
from types import FrameType
from typing import NoReturn

_PR_SET_PDEATHSIG = 1  # Source: prctl(2)


def die_with_parent(parent_pid: int, *, death_signal: signal.Signals = signal.SIGTERM) -> None:
    """Have the kernel send a signal to this process when its parent ends, for whatever reason.

    Args:
        parent_pid: The parent's pid, read before any slow import.
        death_signal: The signal to send.

    Raises:
        SystemExit: The parent has already ended.
        OSError: The kernel rejected the call.

    Source: prctl(2). The setting applies to this process only, not to its children.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    # If the parent ended before prctl took effect, no signal is sent.
    if os.getppid() != parent_pid:
        raise SystemExit(0)


def exit_on_terminate() -> None:
    """Turn SIGTERM into SystemExit, so that `finally` blocks run and children get stopped."""

    def leave(_number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)
