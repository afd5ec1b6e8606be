"""What is worth drafting: the gate, worth and breakers; arithmetic only.

Knows numbers, and nothing of torch, vLLM, clocks or randomness: told the same, it decides the same.
What runs for each row of a step is in C++ (core/).
"""

from engine._core.policy import (
    HEAD,
    NATIVE,
    SUFFIX,
    ForwardDrafter,
    Guesser,
    Load,
    Pace,
    Regime,
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
    "Guesser",
    "Limits",
    "Load",
    "Pace",
    "Profile",
    "Regime",
    "check_profile",
    "paying",
    "worth",
]
