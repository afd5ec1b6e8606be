from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.retry_budget import RetryBudget


def test_requests_earn_a_share_each() -> None:
    budget = RetryBudget(ratio=0.25, capacity=1)
    budget.spend()

    tries = []
    for _ in range(8):
        budget.earn()
        tries.append(budget.spend())

    assert tries == [False, False, False, True] * 2


@given(st.lists(st.booleans(), max_size=200), st.floats(0, 1), st.integers(0, 10))
def test_retries_stay_a_share_of_requests(events: list[bool], ratio: float, capacity: int) -> None:
    budget, spent = RetryBudget(ratio=ratio, capacity=capacity), 0
    for is_request in events:
        if is_request:
            budget.earn()
        else:
            spent += budget.spend()

    assert spent <= capacity + ratio * events.count(True) + 1e-9
