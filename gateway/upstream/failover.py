"""Decides whether a request may be retried, and where; only before its first byte was sent."""

from gateway.errors import WorkerLostError
from gateway.types import WorkerId
from gateway.upstream.retry_budget import RetryBudget


class Failover:
    """The attempts of one request.

    Args:
        budget: Shared by all requests.
        max_replays: How often the request may be replayed after a worker received it. A request
            that kills workers must not kill them all.

    Attributes:
        lost: Workers that failed this request.
    """

    def __init__(self, budget: RetryBudget, *, max_replays: int) -> None:
        self._budget = budget
        self._replays_left = max_replays
        self.lost: set[WorkerId] = set()
        budget.earn()

    def allows(self, error: WorkerLostError, *, worker: WorkerId) -> bool:
        """Whether to try again after `error`.

        If the request never reached the worker, only the request's deadline limits the attempts.
        """
        self.lost.add(worker)
        if not error.sent:
            return True
        if self._replays_left == 0 or not self._budget.spend():
            return False
        self._replays_left -= 1
        return True
