"""Chooses whether a step waits for the tokens of the one before it, by what that brings.

A step that waits has the best drafts, and the device idles while they are made. One that is
launched ahead costs no pause, but is drafted for from what is expected (docs/adr/0035). Which is
better depends on texts, load and machine, so both are measured: tokens a second, in trials that
cost at most a hundredth of the time.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

_TRIAL_STEPS = 16
_MOST_COST = 0.01
"""Most of the time that trials may cost."""
_REST_STEPS = (48, 4096)
"""Fewest and most steps between two trials."""
_FIRST_REST_STEPS = 64
_LEAST_TRIALS = 3
_REMEMBERED = 16
"""Trials that an estimate stands for; older ones fade."""


@dataclass(slots=True)
class _Rate:
    """Tokens of a request a second, over some steps."""

    tokens: float = 0.0
    seconds: float = 0.0
    steps: int = 0

    def add(self, tokens: float, seconds: float, *, keep: float = 1.0) -> None:
        self.tokens = keep * self.tokens + tokens
        self.seconds = keep * self.seconds + seconds
        self.steps += 1

    def over(self, other: "_Rate") -> float | None:
        """Return the logarithm of the ratio to another rate; None if one of them is unknown."""
        if not (self.tokens > 0 < other.tokens and self.seconds > 0 < other.seconds):
            return None
        return math.log(self.tokens / self.seconds * other.seconds / other.tokens)


@dataclass(slots=True)
class _Load:
    """What is known of some numbers of sequences.

    Attributes:
        ahead: The choice.
        gain: Mean logarithm of the other choice's tokens a second over this one's.
        variance: Of the trials.
        trials: How many there were, at most `_REMEMBERED`.
        rest: Steps until the next trial.
        usual: Of the choice, recently.
    """

    ahead: bool = False
    gain: float = 0.0
    variance: float = 0.0
    trials: int = 0
    rest: int = _FIRST_REST_STEPS
    usual: _Rate = field(default_factory=_Rate)

    def learn(self, gain: float) -> None:
        """Take in a trial, maybe change the choice, and set when to try again."""
        self.trials = min(self.trials + 1, _REMEMBERED)
        off = gain - self.gain
        self.gain += off / self.trials
        self.variance += (off * (gain - self.gain) - self.variance) / self.trials
        doubt = math.sqrt(self.variance / self.trials)
        if self.trials >= _LEAST_TRIALS and self.gain > doubt:
            self.ahead = not self.ahead
            self.gain = -self.gain
            self.usual = _Rate()
        cost = _TRIAL_STEPS * max(0.0, 1.0 - math.exp(self.gain))
        least, most = _REST_STEPS
        self.rest = int(min(max(cost / _MOST_COST, least), most))


class Launch:
    """The choice for each step; one for every doubling of the sequences.

    Attributes:
        ahead: Steps behind which the next one was launched ahead.
        waiting: Steps whose tokens the next one waited for.

    Args:
        rule: `auto`, or which of the two it always is.
    """

    def __init__(self, rule: Literal["auto", "wait", "ahead"] = "auto") -> None:
        self.ahead = 0
        self.waiting = 0
        self._rule = rule
        self._loads: dict[int, _Load] = {}
        self._load = _Load()
        self._trial: _Rate | None = None

    def choose(self, sequences: int) -> bool:
        """Return whether to launch the next step ahead. Call once per step.

        Args:
            sequences: In the step; 0 keeps what was chosen last.
        """
        if self._rule != "auto":
            return self._rule == "ahead"
        if sequences:
            self._enter(self._loads.setdefault(sequences.bit_length(), _Load()))
        load = self._load
        if self._trial is None:
            load.rest -= 1
            if load.rest <= 0 and load.usual.steps >= _TRIAL_STEPS:
                self._trial = _Rate()
        elif self._trial.steps >= _TRIAL_STEPS:
            gain = self._trial.over(load.usual)
            self._trial = None
            if gain is not None:
                load.learn(gain)
        return load.ahead != (self._trial is not None)

    def observe(self, *, ahead: bool, sequences: int, tokens: int, seconds: float) -> None:
        """Learn from a step.

        Args:
            ahead: Whether the step behind it was launched before its tokens were known.
            sequences: Requests that got tokens.
            tokens: What they got.
            seconds: From its start to the next one's.
        """
        if ahead:
            self.ahead += 1
        else:
            self.waiting += 1
        if not sequences:
            return
        load, each = self._load, tokens / sequences
        if self._trial is None and ahead == load.ahead:
            load.usual.add(each, seconds, keep=1.0 - 1.0 / (2 * _TRIAL_STEPS))
        elif self._trial is not None and ahead != load.ahead:
            self._trial.add(each, seconds)

    def _enter(self, load: _Load) -> None:
        """Go on with another load; a trial of the last one is void."""
        if load is not self._load:
            self._load, self._trial = load, None
            load.usual = _Rate()
