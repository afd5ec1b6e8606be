"""`specgate verify`: does a server say the same with and without drafts?

Each prompt is asked twice, greedily and with log-probabilities (ask.py), and the answers are
compared token by token (compare.py). A difference where the target itself found two tokens almost
equally likely is a near-tie; any other is a defect.
"""

from gateway.verify.ask import (
    Asked,
    Side,
    Token,
    VerifyError,
    ask,
    find_model,
    find_sides,
    read_answer,
    read_parts,
)
from gateway.verify.compare import Outcome, Result, compare
from gateway.verify.page import page_of, verdict_of
from gateway.verify.prompts import KINDS, Prompt, PromptsError, read_prompts, shipped_prompts
from gateway.verify.summary import Compared, Summary, sentences_of, summarise, table_of

__all__ = [
    "KINDS",
    "Asked",
    "Compared",
    "Outcome",
    "Prompt",
    "PromptsError",
    "Result",
    "Side",
    "Summary",
    "Token",
    "VerifyError",
    "ask",
    "compare",
    "find_model",
    "find_sides",
    "page_of",
    "read_answer",
    "read_parts",
    "read_prompts",
    "sentences_of",
    "shipped_prompts",
    "summarise",
    "table_of",
    "verdict_of",
]
