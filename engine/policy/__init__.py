"""Decides what is worth drafting: the gate, the value of proposals, and the breaker.

Arithmetic only, without torch, vLLM, clocks or randomness: the same calls give the same decisions.
What runs for each sequence of a step is in C++ (core/).
"""

from engine._core.policy import ForwardDrafter, Load, Proposals, paying, worth
from engine.policy.breaker import Breaker
from engine.policy.contest import MOST_PAIRS, Contest, Verdict
from engine.policy.gate import Gate
from engine.policy.launch import Launch
from engine.policy.profile import Profile, check_profile

__all__ = [
    "MOST_PAIRS",
    "Breaker",
    "Contest",
    "ForwardDrafter",
    "Gate",
    "Launch",
    "Load",
    "Profile",
    "Proposals",
    "Verdict",
    "check_profile",
    "paying",
    "worth",
]
