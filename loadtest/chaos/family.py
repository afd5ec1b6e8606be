"""Finds and ends every process that a run starts, also those whose parent has ended."""

import ctypes
import os
import signal
from collections.abc import Sequence

import psutil

_PR_SET_CHILD_SUBREAPER = 36  # Source: prctl(2)
_MOMENT_SECONDS = 3.0
_END_SECONDS = 10.0


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that none is lost from sight.

    Raises:
        OSError: The kernel refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def living_descendants() -> list[psutil.Process]:
    """Every process below this one that has not ended."""
    return [each for each in psutil.Process().children(recursive=True) if _is_alive(each)]


def wait_for_end(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Wait a little for processes that were told to end; a large one takes time.

    Blocks the thread.

    Returns:
        Those that still live.
    """
    _, alive = psutil.wait_procs(processes, timeout=_MOMENT_SECONDS)
    return [process for process in alive if _is_alive(process)]


def end_descendants() -> int:
    """Kill every process below this one that does not end soon by itself, stopped ones too.

    Blocks the thread.

    Returns:
        How many were killed.
    """
    left = wait_for_end(living_descendants())
    for process in left:
        _kill(process)
    psutil.wait_procs(left, timeout=_END_SECONDS)
    return len(left)


def _kill(process: psutil.Process) -> None:
    try:
        process.send_signal(signal.SIGKILL)  # reaches a stopped one, too
    except psutil.NoSuchProcess:
        return


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
