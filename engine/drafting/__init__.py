"""What each request of a step drafts: asks the sources, lets the policy choose, keeps the accounts.

Between the sources (engine/suffix, a head, a drafter of vLLM) and the room that speaks to vLLM. An
error here makes a step plain, never a request fail. No torch, no vllm.
"""

from engine.drafting.control import Control, read_control
from engine.drafting.counters import VERDICTS, Counters
from engine.drafting.drafter import Drafter
from engine.drafting.origin import HEAD, NATIVE, SOURCE_NAMES, Origin
from engine.drafting.rows import Beginning, HeadPass, StepDrafts
from engine.drafting.source import Proposal, Source
from engine.drafting.suffix_source import SuffixSource

__all__ = [
    "HEAD",
    "NATIVE",
    "SOURCE_NAMES",
    "VERDICTS",
    "Beginning",
    "Control",
    "Counters",
    "Drafter",
    "HeadPass",
    "Origin",
    "Proposal",
    "Source",
    "StepDrafts",
    "SuffixSource",
    "read_control",
]
