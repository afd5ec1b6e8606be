"""Drafts for each request of a step: asks the sources, applies the policy, and keeps the counters.

It connects the sources (engine/suffix, a draft head, vLLM's own drafter) with engine/worker. An
error makes a step decode without drafts; it never fails a request. No torch, no vLLM.
"""

from engine.drafting.control import Control, read_control
from engine.drafting.drafter import Drafter
from engine.drafting.origin import HEAD, NATIVE, SOURCE_NAMES, TOKEN_SOURCE_NAMES, Origin
from engine.drafting.step import (
    DECISIONS,
    ON_DEVICE,
    Beginning,
    Counters,
    HeadPass,
    InFlight,
    StepDrafts,
)

__all__ = [
    "DECISIONS",
    "HEAD",
    "NATIVE",
    "ON_DEVICE",
    "SOURCE_NAMES",
    "TOKEN_SOURCE_NAMES",
    "Beginning",
    "Control",
    "Counters",
    "Drafter",
    "HeadPass",
    "InFlight",
    "Origin",
    "StepDrafts",
    "read_control",
]
