"""What drafting counts, as plain numbers; engine/worker/metrics.py gives them their names."""

from collections import Counter
from dataclasses import dataclass, field

VERDICTS = ("drafted", "probed", "priced_out", "unknown", "limited", "paused", "failed")
"""All there are; `Counters.verdicts` says what they mean."""


@dataclass(slots=True)
class Counters:
    """Sums since the start, and whether drafting is paused.

    Attributes:
        verdicts: Steps by what was decided: `drafted`; `unknown`, no source had a guess;
            `priced_out`, all guesses were below the price; `probed`, some tokens were verified
            below it, or none, to see what steps then take; `limited`, more rows than
            `max_batch_size`; `paused`, after repeated errors; `failed`, an error.
        fallbacks: Steps or requests that decoded plainly because of an error, by its cause.
        paused: Whether the breaker is open.
    """

    verdicts: Counter[str] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)
    paused: bool = False
