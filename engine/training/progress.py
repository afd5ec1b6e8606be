"""What people see of a run on their terminal: one line for each event, one bar for each step."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

_LOG_SECONDS = 30.0


def report(line: str) -> None:
    """Write a line for people."""
    tqdm.write(f"train: {line}", file=sys.stderr)
    sys.stderr.flush()


@contextmanager
def shown_progress(
    name: str, *, done: int, total: int, unit: str
) -> Iterator[Callable[[int], None]]:
    """Show a bar; in a file it is written anew every half minute.

    Args:
        name: Of the step.
        done: What earlier runs did.
        total: What there is to do.
        unit: Of both.

    Yields:
        Moves it by so much.
    """
    is_terminal = sys.stderr.isatty()
    bar = tqdm(
        total=total,
        initial=done,
        unit=f" {unit}",
        desc=name,
        unit_scale=unit != "step",
        mininterval=0.2 if is_terminal else _LOG_SECONDS,
        file=sys.stderr,
        dynamic_ncols=is_terminal,
    )
    with bar:
        yield bar.update
