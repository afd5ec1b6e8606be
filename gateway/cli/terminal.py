"""Sentences for the person at the terminal; without a terminal the log has to do."""

import sys

_CLEAR_LINE = "\r\033[K"  # of a spinner, and of the `^C` that the terminal shows


def tell(sentence: str) -> None:
    """Write a line to the terminal, if stderr is one."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{_CLEAR_LINE}specgate: {sentence}\n")
        sys.stderr.flush()
