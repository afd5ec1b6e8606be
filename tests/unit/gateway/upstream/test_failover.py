from gateway.errors import WorkerLostError
from gateway.types import WorkerId
from gateway.upstream.failover import Failover
from gateway.upstream.retry_budget import RetryBudget

A, B = WorkerId("a"), WorkerId("b")
SENT = WorkerLostError("gone", sent=True)
UNSENT = WorkerLostError("refused", sent=False)


def test_the_replays_of_a_request_are_limited() -> None:
    failover = Failover(RetryBudget(ratio=0, capacity=100), max_replays=2)

    assert [failover.allows(SENT, worker=A) for _ in range(3)] == [True, True, False]


def test_all_requests_share_the_budget() -> None:
    budget = RetryBudget(ratio=0, capacity=1)
    first, second = Failover(budget, max_replays=5), Failover(budget, max_replays=5)

    assert first.allows(SENT, worker=A)
    assert not second.allows(SENT, worker=A)


def test_a_request_that_was_not_sent_may_always_try_again() -> None:
    failover = Failover(RetryBudget(ratio=0, capacity=0), max_replays=0)

    assert all(failover.allows(UNSENT, worker=A) for _ in range(10))
    assert not failover.allows(SENT, worker=B)
    assert failover.lost == {A, B}
