"""The gateway's view of one worker: health, models, load."""

from dataclasses import dataclass, field
from typing import Any

from gateway.routing import slow_start_weight
from gateway.types import WorkerId
from gateway.upstream.client import WorkerClient
from gateway.upstream.failover import Outlier


@dataclass(slots=True, eq=False)
class Worker:
    """State of one worker; changed only by the pool and its probes.

    Attributes:
        id: Name for logs and metrics.
        client: HTTP to the worker.
        outlier: Its failures and ejections.
        up: Whether the last probes succeeded.
        up_since: Monotonic seconds when it last came up.
        ever_up: Whether it has been up before, so that coming up is a recovery.
        failed_probes: Failed probes in a row.
        models: The entries of its `/v1/models`, by model name.
        in_flight: Requests it is running for this process.
    """

    id: WorkerId
    client: WorkerClient
    outlier: Outlier
    up: bool = False
    up_since: float = 0.0
    ever_up: bool = False
    failed_probes: int = 0
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    in_flight: int = 0

    def can_take(self, model: str | None, now: float) -> bool:
        """Whether it can take a request for `model` (None: any)."""
        return self.up and (model is None or model in self.models) and self.outlier.accepts(now)

    def weight(self, now: float, *, ramp_seconds: float) -> float:
        """Its share of the usual load; below 1 for a while after a recovery."""
        if not self.ever_up:
            return 1.0
        return slow_start_weight(now - self.up_since, ramp_seconds=ramp_seconds)
