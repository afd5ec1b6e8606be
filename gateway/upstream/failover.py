"""What follows when a worker fails a request: it is ejected, and the request is tried elsewhere.

Pure: times are monotonic seconds, passed in. The pool reports each request's end and leases
workers; `serving` asks whether a request may be tried again.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from gateway.errors import UpstreamError, WorkerLeftError, WorkerLostError, WorkerTimeoutError
from gateway.types import WorkerId

_MAX_DOUBLINGS = 60  # longer than any ejection, and no float overflow


@dataclass(frozen=True, slots=True)
class EjectionPolicy:
    """When a worker is ejected, and for how long.

    Attributes:
        failures: Consecutive failures that eject it.
        base_seconds: Length of its first ejection; each further one is twice as long.
        max_seconds: Longest ejection. As much time in service takes one doubling back.
    """

    failures: int
    base_seconds: float
    max_seconds: float


@dataclass(slots=True)
class Outlier:
    """Counts the consecutive failures of one worker, and ejects it for a while.

    An ejected worker gets no requests until a trial is due. The trial's end decides: the worker is
    readmitted, or ejected for twice as long. A request that began before the ejection decides
    nothing. A trial that takes long (a stream) does not keep the worker out: after another
    ejection time one more trial begins.

    Attributes:
        failures: Consecutive failures.
        is_ejected: Whether it is ejected, or on trial.
        ejections: Ejections so far.
        ejection_seconds: Length of the latest ejection.

    Source: Envoy, "Outlier detection" (consecutive 5xx; the time grows with the number of ejections
    and shrinks with time in service). The trial is of the circuit breakers (Hystrix).
    """

    policy: EjectionPolicy
    failures: int = 0
    is_ejected: bool = False
    ejections: int = 0
    ejection_seconds: float = 0.0
    _doublings: int = 0
    _trial_due: float = 0.0
    _readmitted: float = 0.0

    def accepts(self, now: float) -> bool:
        """Whether it may get a request: it is in service, or a trial is due."""
        return not self.is_ejected or now >= self._trial_due

    def begin(self, now: float) -> int | None:
        """Record that a request begins.

        Returns:
            To be passed on when it ends: the number of the ejection that it tries to end, or None
            if it is no trial.
        """
        if not self.is_ejected:
            return None
        self._trial_due = now + self.ejection_seconds
        return self.ejections

    def succeed(self, trial: int | None, now: float) -> bool:
        """Record an answer; True if it readmits the worker."""
        if not self.is_ejected:
            self.failures = 0
            return False
        return trial == self.ejections and self.readmit(now)

    def fail(self, trial: int | None, now: float, *, may_eject: bool) -> bool:
        """Record a failure; True if it ejects the worker, for the first time or again.

        Args:
            trial: What `begin` returned.
            now: The time.
            may_eject: Whether enough other workers remain. A failed trial ejects in any case.
        """
        if self.is_ejected:
            if trial != self.ejections:
                return False
        else:
            self.failures += 1
            if self.failures < self.policy.failures or not may_eject:
                return False
            good_seconds = now - self._readmitted
            forgiven = int(good_seconds / self.policy.max_seconds)
            self._doublings = max(0, self._doublings - forgiven)
        self._eject(now)
        return True

    def abandon(self, trial: int | None) -> None:
        """Record a request without a result (the client left): another may be the trial."""
        if self.is_ejected and trial == self.ejections:
            self._trial_due = 0.0

    def readmit(self, now: float) -> bool:
        """Put it back into service; how often it was ejected is forgotten only with time.

        Returns:
            Whether it was ejected.
        """
        was_ejected, self.is_ejected = self.is_ejected, False
        self.failures = 0
        if was_ejected:
            self._readmitted = now
        return was_ejected

    def _eject(self, now: float) -> None:
        seconds = self.policy.base_seconds * 2.0 ** min(self._doublings, _MAX_DOUBLINGS)
        self.ejection_seconds = min(seconds, self.policy.max_seconds)
        self._trial_due = now + self.ejection_seconds
        self._doublings += 1
        self.ejections += 1
        self.is_ejected = True


@dataclass(slots=True)
class RetryBudget:
    """Limits the retries of all requests together, so that retries cannot overload the workers.

    Each request earns a share of a retry; each retry spends one. Starts full, so that all requests
    of a worker that dies can be replayed once.

    Attributes:
        ratio: Retries earned by one request, 0-1.
        capacity: Most retries saved up.
    """

    ratio: float
    capacity: float
    _saved: float = -1.0

    def __post_init__(self) -> None:
        self._saved = self.capacity

    def earn(self) -> None:
        """Add the share of a new request."""
        self._saved = min(self.capacity, self._saved + self.ratio)

    def spend(self) -> bool:
        """Take one retry; False if none is left."""
        if self._saved < 1.0:
            return False
        self._saved -= 1.0
        return True


class Failover:
    """The attempts of one request.

    Args:
        budget: Shared by all requests.
        max_replays: How often the request may be replayed after a worker received it. A request
            that kills workers must not kill them all.
        has_other: Whether a worker outside of a set could take the request now.

    Attributes:
        failed: Workers that failed this request.
    """

    def __init__(
        self,
        budget: RetryBudget,
        *,
        max_replays: int,
        has_other: Callable[[Collection[WorkerId]], bool],
    ) -> None:
        self._budget = budget
        self._replays_left = max_replays
        self._has_other = has_other
        self.failed: set[WorkerId] = set()
        budget.earn()

    def may_move(self) -> bool:
        """Whether to take the request from a worker that is leaving; counts as a retry.

        Moving costs the other workers a prompt, and staying costs nothing as long as the worker is
        there. So it is only done within the limits.
        """
        return self._has_other(self.failed) and self._spend()

    def allows(self, error: UpstreamError, *, worker: WorkerId, has_begun: bool = False) -> bool:
        """Whether to try again after `worker` failed with `error`.

        Args:
            error: How it failed.
            worker: Who failed.
            has_begun: Whether another worker would go on with an answer that has begun.

        - The request never reached the worker: always; only its deadline limits the attempts.
        - It was taken from the worker because that is leaving: always; `may_move` decided it.
        - The connection was lost: within the limits, if need be on the same worker, which may have
          closed an idle connection or may be restarting.
        - The worker was silent for too long: only if the answer has begun, since then it is stuck,
          and on another worker. Otherwise a second try would double the load that made it slow.
        - The worker answered, but with 5xx or badly: within the limits, on another worker.

        An answer that has begun may go back to a worker that failed it before: losing it would be
        worse.
        """
        self.failed.add(worker)
        if has_begun and not self._has_other(self.failed):
            self.failed = {worker}
        match error:
            case WorkerLostError(sent=False) | WorkerLeftError():
                return True
            case WorkerLostError():
                pass
            case WorkerTimeoutError() if not has_begun:
                return False
            case _ if not self._has_other(self.failed):
                return False
        return self._spend()

    def _spend(self) -> bool:
        if self._replays_left == 0 or not self._budget.spend():
            return False
        self._replays_left -= 1
        return True
