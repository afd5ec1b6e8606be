"""Counters of drafting as plain numbers; engine/worker/metrics.py publishes them."""

from collections import Counter
from dataclasses import dataclass, field

DECISIONS = ("drafted", "probed", "priced_out", "unknown", "limited", "paused", "failed")
"""All decisions about a step; `Counters.decisions` defines them."""


@dataclass(slots=True)
class Counters:
    """Sums since the start, and whether drafting is paused.

    Attributes:
        decisions: Steps by decision. `drafted`: drafts were verified; `unknown`: no source had a
            proposal; `priced_out`: no proposal was worth the price; `probed`: a few tokens, or
            none, were verified only to measure the time of steps; `limited`: more sequences than
            `max_batch_size`; `paused`: after repeated errors; `failed`: an error in this step.
        fallbacks: Steps or requests that decoded without drafts because of an error, by its class.
        paused: Whether the breaker is open.
    """

    decisions: Counter[str] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)
    paused: bool = False
