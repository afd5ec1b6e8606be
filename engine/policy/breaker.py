"""A circuit breaker that counts steps instead of seconds, so that all ranks agree on its state."""

_AFTER = 3
_FIRST_PAUSE = 64
_LONGEST_PAUSE = 4096


class Breaker:
    """Opens after `_AFTER` failed steps in a row, pauses, and then lets one step try again.

    The first pause is `_FIRST_PAUSE` steps. It doubles with every failed try, up to
    `_LONGEST_PAUSE`. A successful step resets the breaker.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._pause = _FIRST_PAUSE
        self._left = 0

    @property
    def is_open(self) -> bool:
        """Whether it is pausing."""
        return self._left > 0

    def allows(self) -> bool:
        """Return whether this step may speculate. Call once per step."""
        if self._left == 0:
            return True
        self._left -= 1
        return self._left == 0

    def succeeded(self) -> None:
        """Record that an allowed step succeeded."""
        self._failures = 0
        self._pause = _FIRST_PAUSE

    def failed(self) -> bool:
        """Record that an allowed step failed. Return whether that opened the breaker."""
        self._failures += 1
        if self._failures < _AFTER:
            return False
        self._left = self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True
