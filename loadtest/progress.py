"""Progress of a benchmark: one line at a time on stderr; stdout belongs to the figures."""

import sys
import time

_BEGAN = time.monotonic()


def say(text: str) -> None:
    """Write a line of progress."""
    sys.stderr.write(f"[{time.monotonic() - _BEGAN:6.1f} s] {text}\n")
    sys.stderr.flush()
