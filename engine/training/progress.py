"""Terminal output of a run: a line for each event, a progress bar for each step."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

_LOG_SECONDS = 30.0


def report(line: str) -> None:
    """Write a line to the terminal."""
    tqdm.write(f"train: {line}", file=sys.stderr)
    sys.stderr.flush()


@contextmanager
def shown_progress(
    name: str, *, done: int, total: int, unit: str
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; in a file it is rewritten every half minute.

    Args:
        name: Name of the step.
        done: Amount done by earlier runs.
        total: Total amount.
        unit: Unit of both.

    Yields:
        A function that advances the bar by an amount.
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
