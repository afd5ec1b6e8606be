"""What is worth drafting: prices, worth and breakers; arithmetic only.

Knows numbers, and nothing of torch, vLLM, clocks or randomness, so that every rank decides alike.
"""

from engine.policy.acceptance import PositionAcceptance
from engine.policy.breaker import Breaker
from engine.policy.confidence import ConfidenceCalibration
from engine.policy.price import Price
from engine.policy.step_cost import StepCost
from engine.policy.worth import worth

__all__ = [
    "Breaker",
    "ConfidenceCalibration",
    "PositionAcceptance",
    "Price",
    "StepCost",
    "worth",
]
