"""Picks a worker from a snapshot of all; pure: no I/O, no FastAPI, randomness is passed in."""

from gateway.routing.choose import Candidate, choose, slow_start_weight

__all__ = ["Candidate", "choose", "slow_start_weight"]
