"""Given a snapshot of the workers, pick one; pure: no I/O, no FastAPI, randomness is passed in."""

from gateway.routing.choose import Candidate, choose, slow_start_weight

__all__ = ["Candidate", "choose", "slow_start_weight"]
