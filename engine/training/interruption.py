"""Ctrl-C and SIGTERM, put off until what must not be torn is done."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def put_off_signals() -> Iterator[Callable[[], bool]]:
    """Put the signals that end us off to the end of the block; those that are ignored stay so.

    Yields:
        Tells whether one came: then the block should end soon. At its end the signal does what it
        would have done.
    """
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    heeded = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in heeded}
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])
