"""Runs a command of the library, which stops in order when we are stopped."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from engine.errors import TrainingError

FINISHED = "finished"
"""File beside the checkpoints: the last epoch was trained, and measured on what is held out."""

_STOP_SECONDS = 120.0


def run_library(command: Sequence[str], *, log: Path, doing: str) -> None:
    """Run a command to its end; its progress is shown, all else goes to a log.

    Ctrl-C and SIGTERM reach it as one SIGINT, after which it may save what it has.

    Args:
        command: Program and arguments.
        log: File to which its standard output is appended.
        doing: What it does, for the error.

    Raises:
        TrainingError: It failed.
        KeyboardInterrupt: We were stopped; it has ended.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603  # our own interpreter
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            start_new_session=True,  # keeps Ctrl-C at the terminal away from it; we pass it on
        )
        try:
            status = process.wait()
        except BaseException:
            _stop(process)
            raise
    if status != 0:
        raise TrainingError(f"{doing} failed with status {status}; see {log}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
