"""Defers Ctrl-C and SIGTERM to a safe point."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def interrupt_on_terminate() -> list[int]:
    """Handle SIGTERM like Ctrl-C, which asyncio turns into an orderly shutdown.

    Returns:
        The number of each SIGTERM that comes, from now on.
    """
    came: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in background jobs of a shell
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, interrupt)
    return came


@contextlib.contextmanager
def put_off_signals() -> Iterator[Callable[[], bool]]:
    """Defer termination signals to the end of the block; ignored signals stay ignored.

    Yields:
        A function that tells whether a signal came, so that the block should end soon. After the
        block the signal takes effect.
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
