"""An event loop whose clock jumps to the next timer, so that waits take no time."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class _JumpingSelector(selectors.SelectSelector):
    """Advances the clock instead of waiting; a wait without a timeout is a deadlock."""

    def __init__(self) -> None:
        super().__init__()
        self.now_seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("deadlock: all tasks wait and no timer is due")
        self.now_seconds += max(0.0, timeout)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """For code that waits for timers only, not for sockets."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Virtual seconds since the loop was created."""
        return self._jumping.now_seconds


def run_in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in virtual time; returns its result."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)


def in_virtual_time(
    test: Callable[P, Coroutine[Any, Any, None]],
) -> Callable[P, None]:
    """Decorate a coroutine test to run in virtual time."""

    @wraps(test)
    def run(*args: P.args, **named: P.kwargs) -> None:
        run_in_virtual_time(test(*args, **named))

    return run


def now() -> float:
    """The running loop's time in seconds."""
    return asyncio.get_running_loop().time()
