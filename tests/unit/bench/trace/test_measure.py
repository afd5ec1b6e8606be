import psutil
import pytest

from bench.trace.measure import Figures, TraceError, measure, median_interval, report
from tests.fakes.state import DEFAULT_MODEL
from tests.fakes.worker import FakeWorker


def test_rounds_are_compared_one_by_one() -> None:
    first = {False: Figures(100.0, 20.0, 900.0), True: Figures(98.0, 22.0, 900.0)}
    second = {False: Figures(200.0, 10.0, 450.0), True: Figures(200.0, 12.0, 450.0)}

    found = report([first, second])

    assert found["rounds"] == 2
    assert found["tokens_per_second"] == 150.0
    assert found["tokens_per_second_traced"] == 149.0
    assert found["tokens_per_second_ratio"] == pytest.approx(0.99)
    assert found["tokens_per_second_ratio_spread"] == pytest.approx([0.98, 1.0])
    assert found["serving_ms_ratio"] == pytest.approx(1.15)
    assert found["engine_ms_ratio"] == 1.0


def test_an_interval_leaves_out_what_is_rare() -> None:
    assert median_interval([float(number) for number in range(101)]) == (40.0, 60.0)
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)


async def test_a_server_that_does_not_trace_is_noticed() -> None:
    ours = psutil.Process()
    async with FakeWorker() as worker:
        with pytest.raises(TraceError, match="asked for a trace: True"):
            await measure(
                worker.port, DEFAULT_MODEL, serving=[ours], engine=ours, clients=2, rounds=1
            )
