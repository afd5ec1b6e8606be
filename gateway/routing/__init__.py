"""Picks a worker for a request; pure: no I/O, no FastAPI, clock and randomness are passed in."""

from gateway.routing.choose import Candidate, choose, slow_start_weight
from gateway.routing.prefix import Prefix, block_ends, hash_prefix
from gateway.routing.route import NO_ASK, Answered, Ask, Reason, Report, Route
from gateway.routing.router import Router

__all__ = [
    "NO_ASK",
    "Answered",
    "Ask",
    "Candidate",
    "Prefix",
    "Reason",
    "Report",
    "Route",
    "Router",
    "block_ends",
    "choose",
    "hash_prefix",
    "slow_start_weight",
]
