"""Whether the gate is by and large open or shut: for people, so that not every flap counts."""

_RATE = 1.0 / 64.0
_SHUT_BELOW = 0.05
_OPEN_ABOVE = 0.25


class Regime:
    """Follows the share of steps that drafted, of those in which something could have been drafted.

    It is shut when of some 64 steps of late fewer than 5 % drafted, and open again above 25 %.

    Attributes:
        is_open: What it is now; open at first.
    """

    def __init__(self) -> None:
        self.is_open = True
        self._share = 1.0

    def learn(self, *, drafted: bool) -> bool:
        """Take a step in; True if that changed what it is."""
        self._share += _RATE * (float(drafted) - self._share)
        is_open = self._share > (_SHUT_BELOW if self.is_open else _OPEN_ABOVE)
        changed = is_open != self.is_open
        self.is_open = is_open
        return changed
