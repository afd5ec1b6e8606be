from gateway.errors import WorkerLostError
from gateway.types import WorkerId
from gateway.upstream.failover import Failover
from gateway.upstream.retry_budget import RetryBudget

A, B = WorkerId("a"), WorkerId("b")
SENT = WorkerLostError("gone", sent=True)
UNSENT = WorkerLostError("refused", sent=False)


def test_a_request_that_kills_workers_is_replayed_so_often_and_no_more() -> None:
    failover = Failover(RetryBudget(ratio=0, capacity=100), max_replays=2)

    assert [failover.allows(SENT, worker=A) for _ in range(3)] == [True, True, False]


def test_the_common_budget_bounds_everybody() -> None:
    budget = RetryBudget(ratio=0, capacity=1)
    first, second = Failover(budget, max_replays=5), Failover(budget, max_replays=5)

    assert first.allows(SENT, worker=A)
    assert not second.allows(SENT, worker=A)


def test_a_request_that_reached_nobody_may_always_try_again() -> None:
    failover = Failover(RetryBudget(ratio=0, capacity=0), max_replays=0)

    assert all(failover.allows(UNSENT, worker=A) for _ in range(10))


def test_lost_workers_are_remembered() -> None:
    failover = Failover(RetryBudget(ratio=0, capacity=5), max_replays=0)

    failover.allows(SENT, worker=A)
    failover.allows(UNSENT, worker=B)

    assert failover.lost == {A, B}


def test_each_request_earns_its_share() -> None:
    budget = RetryBudget(ratio=0.5, capacity=1)
    budget.spend()
    for _ in range(2):
        Failover(budget, max_replays=1)

    assert Failover(budget, max_replays=1).allows(SENT, worker=A)
