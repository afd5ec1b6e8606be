"""How much a run does, as data, and the settings of the gateways that it runs against."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.fuzz.answers import MAX_FRAME_BYTES


@dataclass(frozen=True, slots=True)
class Plan:
    """One run; the defaults are a full run: 100,000 cases, in ten minutes on two cores.

    Attributes:
        every: Of the cases at every byte and at every bound, one in so many is played.
        requests: Random hostile requests.
        answers: Random hostile answers.
        examples: Random cases of schemathesis for each operation.
        slow_heads: Connections that send a head a byte a second.
        slow_bodies: Connections that send a body so.
        slow_seconds: How long they go on.
        polite_requests: Requests of the polite tenant, alone and again beside the flood.
        limit_seconds: Longest run.
    """

    every: int = 1
    requests: int = 30_000
    answers: int = 25_000
    examples: int = 1_000
    slow_heads: int = 2_000
    slow_bodies: int = 200
    slow_seconds: float = 40.0
    polite_requests: int = 40
    limit_seconds: float = 2_700.0


FULL = Plan()
QUICK = Plan(
    every=8,
    requests=4_000,
    answers=2_000,
    examples=40,
    slow_seconds=25.0,
    polite_requests=12,
    limit_seconds=300.0,
)

LEAST_CASES = 100_000
"""Of a full run."""
MOST_BLOCK_MS = 50.0
MOST_SHARE = 0.02
MOST_POLITE_RATIO = 2.0
TENANTS = 50
TENANT_AT_ONCE = 10
POLITE_ANSWER_SECONDS = 0.8
SHARE_SECONDS = 10.0
SHARE_SETTLE_SECONDS = 5.0

HOSTILE: Mapping[str, Any] = {
    "forward_paths": [],
    "stream": {"max_frame_bytes": MAX_FRAME_BYTES},
    "request": {"held_answer_bytes": 2**20, "silence_seconds": 1.0, "wait_for_worker_seconds": 5.0},
    "admission": {"body_timeout_seconds": 12.0},
    "upstream": {"breaker_failures": 10**9},
}
"""Short times, so that a silent worker or client costs a second or a few; no worker is ejected."""
CROWDED: Mapping[str, Any] = {
    "admission": {"max_running_requests": 128, "max_queued_requests": 256}
}
"""Less than the tenants ask for at once."""
