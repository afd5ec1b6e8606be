"""What drafting counts, as plain numbers; engine/worker/metrics.py gives them their names."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """Sums since the start, and the latest values.

    Attributes:
        verdicts: Steps by what was decided: `drafted`; `unknown`, no source had a guess;
            `priced_out`, all guesses were below the price; `paused`, by the breaker.
        fallbacks: Steps or requests that decoded plainly because of an error, by its cause.
        price: Of the latest step that had guesses.
        paused: Whether the breaker is open.
    """

    verdicts: Counter[str] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)
    price: float = 0.0
    paused: bool = False
