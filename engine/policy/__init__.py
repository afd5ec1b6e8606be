"""What is worth drafting: prices, worth and breakers; arithmetic only.

Knows numbers, and nothing of torch, vLLM, clocks or randomness, so that every rank decides alike.
What runs for each row of a step is in C++ (core/).
"""

from engine.policy._core import ForwardDrafter
from engine.policy.breaker import Breaker
from engine.policy.price import Price
from engine.policy.step_cost import StepCost

__all__ = [
    "Breaker",
    "ForwardDrafter",
    "Price",
    "StepCost",
]
