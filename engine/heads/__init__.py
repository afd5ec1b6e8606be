"""Draft heads in torch: load, run, train, save. Does not import vllm.

A head drafts from the target's last hidden states alone, so it may skip any step or sequence.
"""

from engine.heads.attention import Context
from engine.heads.checkpoint import is_head, load_head, read_head_config, save_head
from engine.heads.config import HeadConfig
from engine.heads.head import DraftHead
from engine.heads.memory import HeadMemory
from engine.heads.pieces import unhurried
from engine.heads.target import SharedTables, TargetFacts
from engine.heads.transfer import Guess
from engine.heads.vocabulary import IGNORED, Vocabulary

__all__ = [
    "IGNORED",
    "Context",
    "DraftHead",
    "Guess",
    "HeadConfig",
    "HeadMemory",
    "SharedTables",
    "TargetFacts",
    "Vocabulary",
    "is_head",
    "load_head",
    "read_head_config",
    "save_head",
    "unhurried",
]
