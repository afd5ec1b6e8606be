"""The canary: watches in production that speculation changes nothing (ADR 45, docs/lossless.md).

A share of the greedy requests is asked again in idle moments without drafts, and the answers are
compared token by token.
"""

from gateway.canary.budget import TimeBudget
from gateway.canary.canary import Canary, CanaryPolicy, Watched
from gateway.canary.compare import MARGINS
from gateway.canary.defects import Defects

__all__ = ["MARGINS", "Canary", "CanaryPolicy", "Defects", "TimeBudget", "Watched"]
