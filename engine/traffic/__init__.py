"""Recorded traffic: tokens and hidden states of consenting tenants, in a bounded folder on disk.

The worker writes it, training reads it; neither waits for the other. Does not import vllm.
"""

from engine.traffic.folder import OUTCOMES, AdaptFolder
from engine.traffic.ring import Ring, delete_segments, list_segments, read_segment, tokens_of
from engine.traffic.seal import Seal
from engine.traffic.segment import Segment, digest_of
from engine.traffic.writer import DROP_REASONS, SegmentWriter, Stretch

__all__ = [
    "DROP_REASONS",
    "OUTCOMES",
    "AdaptFolder",
    "Ring",
    "Seal",
    "Segment",
    "SegmentWriter",
    "Stretch",
    "delete_segments",
    "digest_of",
    "list_segments",
    "read_segment",
    "tokens_of",
]
