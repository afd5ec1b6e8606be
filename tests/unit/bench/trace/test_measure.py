import pytest

from bench.trace.measure import TraceError, measure, report
from tests.fakes.state import DEFAULT_MODEL
from tests.fakes.worker import FakeWorker


def test_rounds_are_compared_one_by_one() -> None:
    found = report([{False: 100.0, True: 98.0}, {False: 200.0, True: 200.0}])

    assert found["tokens_per_second"] == 150.0
    assert found["tokens_per_second_traced"] == 149.0
    assert found["ratio"] == pytest.approx(0.99)
    assert found["ratio_spread"] == pytest.approx([0.98, 1.0])
    assert found["rounds"] == 2


async def test_a_server_that_does_not_trace_is_noticed() -> None:
    async with FakeWorker() as worker:
        with pytest.raises(TraceError, match="asked for a trace: True"):
            await measure(worker.port, DEFAULT_MODEL, clients=2, rounds=1)
