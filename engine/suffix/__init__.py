"""The suffix index: predicts the next tokens from text written before, with their probabilities.

A C++ core (core/: store, matcher, draft, calibration, index, snapshot) and its Python interface. It
works on token ids, without torch, vLLM, clocks or randomness.
"""

from engine.suffix.index import (
    LONGEST_DRAFT,
    Continuation,
    Index,
    Loaded,
    Stats,
    SuffixIndex,
)

__all__ = ["LONGEST_DRAFT", "Continuation", "Index", "Loaded", "Stats", "SuffixIndex"]
