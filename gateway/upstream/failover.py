"""Whether one request may try again, and where; only ever before its first byte has left."""

from gateway.errors import WorkerLostError
from gateway.types import WorkerId
from gateway.upstream.retry_budget import RetryBudget


class Failover:
    """The tries of one request.

    Args:
        budget: Shared by all requests.
        most_replays: Times this request may be sent to a worker again after it was sent once;
            a request that kills workers must not kill them all.
    """

    def __init__(self, budget: RetryBudget, *, most_replays: int) -> None:
        self._budget = budget
        self._replays_left = most_replays
        self.lost: set[WorkerId] = set()
        budget.earn()

    def allows(self, error: WorkerLostError, *, worker: WorkerId) -> bool:
        """Whether to try again after `error`.

        A request that never reached a worker costs that worker nothing: such tries are bounded
        by the request's deadline alone.
        """
        self.lost.add(worker)
        if not error.sent:
            return True
        if self._replays_left == 0 or not self._budget.spend():
            return False
        self._replays_left -= 1
        return True
