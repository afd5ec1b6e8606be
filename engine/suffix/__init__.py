"""The suffix index: what comes next, given what was written before, and how sure that is.

A C++ core (core/: store, matcher, draft, calibration, index, snapshot) and its Python face. It
knows token ids and nothing of torch or vLLM; time and randomness do not enter.
"""

from engine.suffix.index import LONGEST_DRAFT, Draft, DraftBatch, Index, Stats, SuffixIndex

__all__ = ["LONGEST_DRAFT", "Draft", "DraftBatch", "Index", "Stats", "SuffixIndex"]
