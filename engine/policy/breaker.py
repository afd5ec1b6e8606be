"""A breaker that counts steps instead of seconds, so that it is the same on every rank."""

_AFTER = 3
_FIRST_PAUSE = 64
_LONGEST_PAUSE = 4096


class Breaker:
    """Lets steps through until `_AFTER` in a row failed; then pauses, and tries one again.

    The pause is `_FIRST_PAUSE` steps and doubles with every try that fails, up to `_LONGEST_PAUSE`.
    It is back to its first state after a step that went well.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._pause = _FIRST_PAUSE
        self._left = 0

    @property
    def is_open(self) -> bool:
        """Whether steps are kept away."""
        return self._left > 0

    def allows(self) -> bool:
        """Ask once a step: may this one speculate?"""
        if self._left == 0:
            return True
        self._left -= 1
        return self._left == 0

    def succeeded(self) -> None:
        """A step that was allowed went well."""
        self._failures = 0
        self._pause = _FIRST_PAUSE

    def failed(self) -> bool:
        """A step that was allowed failed; True when that opened the breaker."""
        self._failures += 1
        if self._failures < _AFTER:
            return False
        self._left = self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True
