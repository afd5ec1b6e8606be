"""Decides what is worth drafting: the gate, the value of proposals, and the breaker.

Arithmetic only, without torch, vLLM, clocks or randomness: the same calls give the same decisions.
What runs for each sequence of a step is in C++ (core/).
"""

from engine._core.policy import (
    HEAD,
    NATIVE,
    SUFFIX,
    ForwardDrafter,
    Load,
    ProposalValue,
    StepRate,
    paying,
    worth,
)
from engine.policy.breaker import Breaker
from engine.policy.gate import Gate, Limits
from engine.policy.profile import Profile, check_profile

__all__ = [
    "HEAD",
    "NATIVE",
    "SUFFIX",
    "Breaker",
    "ForwardDrafter",
    "Gate",
    "Limits",
    "Load",
    "Profile",
    "ProposalValue",
    "StepRate",
    "check_profile",
    "paying",
    "worth",
]
