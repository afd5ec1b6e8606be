"""What the commands of all benchmarks have in common: arguments, the start and the JSON line."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from bench.rounds import Json, rounded
from engine.lifetime import die_with_parent
from loadtest.machine import Machine, describe_machine
from loadtest.progress import say

DATA = Path(__file__).parents[1] / "../shared/data"
_BUSY_LOAD = 0.7


def new_parser(name: str) -> argparse.ArgumentParser:
    """A parser for `python -m bench.NAME` that knows `--quick`."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}")
    parser.add_argument("--quick", action="store_true", help="a first look within three minutes")
    return parser


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add `--data`."""
    parser.add_argument("--data", type=Path, default=DATA, help="folder of recorded conversations")


def client_counts(text: str, *, most: int = sys.maxsize) -> list[int]:
    """Read numbers of clients separated by commas.

    Raises:
        ArgumentTypeError: One is below 1 or above `most`.
        ValueError: One is no number.
    """
    counts = [int(part) for part in text.split(",")]
    if min(counts) < 1 or max(counts) > most:
        limit = "at least 1 client" if most == sys.maxsize else f"1 to {most} clients"
        raise argparse.ArgumentTypeError(limit)
    return counts


async def look_at_machine() -> Machine:
    """Describe the machine, and warn when it is already busy."""
    machine = await describe_machine()
    if machine.load_before > _BUSY_LOAD:
        say(f"the machine is already busy (load {machine.load_before:.1f}): expect wide spreads")
    return machine


def print_line(measure: Callable[[], Json], failures: tuple[type[Exception], ...]) -> int:
    """Run a benchmark and print its JSON line; SIGTERM ends it as Ctrl-C does.

    Args:
        measure: Returns what the line holds.
        failures: Exceptions that are reported in one line, without a traceback.

    Returns:
        The exit status.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that children are stopped
    try:
        found = measure()
    except failures as error:
        say(f"failed: {error}")
        return 1
    sys.stdout.write(json.dumps(rounded(found)) + "\n")
    return 0


def new_pool() -> ProcessPoolExecutor:
    """Return a pool with a process for each core.

    The pool itself would wait for its work. So from now on Ctrl-C and SIGTERM end this process at
    once, without cleaning up, and the kernel ends those of the pool with it.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    end = partial(die_with_parent, os.getpid(), death_signal=signal.SIGKILL)
    return ProcessPoolExecutor(initializer=end)
