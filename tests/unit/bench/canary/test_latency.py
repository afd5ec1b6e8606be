import numpy as np
import pytest

from bench.canary import latency
from bench.canary.front import CanaryError, Counts
from bench.canary.latency import Round, Times, measure, quantile_ratio, report
from tests.fakes.state import DEFAULT_MODEL
from tests.fakes.worker import FakeWorker


def a_round(off: float, on: float) -> Round:
    return {
        "off": [Times(off / 10, off), Times(off / 5, 3 * off)],
        "all": [Times(on / 10, on), Times(on / 5, 3 * on)],
    }


def test_a_slow_round_does_not_widen_the_interval_of_a_ratio() -> None:
    slow = np.array([[1.0], [1.1], [50.0], [1.2], [0.9]])

    ratio, (low, high) = quantile_ratio(1.02 * slow, slow, 0.5)

    assert (ratio, low, high) == pytest.approx((1.02, 1.02, 1.02))


def test_noise_widens_it() -> None:
    rng = np.random.default_rng(3)
    ours, theirs = rng.normal(100.0, 5.0, (2, 20, 12))

    ratio, (low, high) = quantile_ratio(ours, theirs, 0.5)

    assert low < ratio < high
    assert low < 1.0 < high


def test_the_report_has_times_ratios_and_what_was_asked_again() -> None:
    counts = {"all": Counts({"same": 4}, {"busy": 2}, 0)}

    found = report([a_round(100.0, 110.0), a_round(200.0, 220.0)], counts)

    assert found["rounds"] == 2
    assert found["off_whole_ms_p50"] == 250.0
    assert found["all_whole_ms_p50"] == pytest.approx(275.0)
    assert found["all_first_ms_p99_ratio"] == pytest.approx(1.1)
    assert "off_whole_ms_p50_ratio" not in found
    assert (found["all_compared"], found["all_skipped"]) == ({"same": 4}, {"busy": 2})


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "_REQUESTS", 2)
    monkeypatch.setattr(latency, "_PAUSE_SECONDS", (0.0, 0.01))


@pytest.mark.usefixtures("short")
async def test_all_are_asked_the_same_and_the_first_round_is_not_counted() -> None:
    async with FakeWorker() as worker:
        ports = {"off": worker.port, "all": worker.port}
        (found,) = await measure(ports, worker.port, DEFAULT_MODEL, rounds=1)

        asked = [one.json()["messages"][0]["content"] for one in worker.requests]
    assert {name: len(times) for name, times in found.items()} == {"off": 2, "all": 2}
    assert all(0 < one.first_ms < one.whole_ms for one in found["off"])
    assert asked[:2] == asked[2:4] != asked[4:6] == asked[6:]


@pytest.mark.usefixtures("short")
async def test_a_failed_request_ends_the_run() -> None:
    async with FakeWorker() as worker:
        worker.state.models = ["another"]
        with pytest.raises(CanaryError, match="status 404"):
            await measure({"off": worker.port}, worker.port, DEFAULT_MODEL, rounds=1)
