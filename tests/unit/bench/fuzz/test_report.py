"""The JSON line, and when a run has passed."""

import pytest

from bench.fuzz.failing_worker import Share
from bench.fuzz.findings import Finding, Findings, Kind
from bench.fuzz.plan import LEAST_CASES
from bench.fuzz.report import is_passed, percentile, report
from bench.fuzz.run import Measured
from bench.fuzz.slow_clients import SlowFigures
from bench.fuzz.tenants import FloodFigures


def _measured() -> Measured:
    return Measured(
        findings={"requests": Findings(cases=LEAST_CASES)},
        block_ms={"requests": 10.0, "flood": 90.0},
        share=Share(0.01, 0, 500),
        slow=SlowFigures(ordinary=[0.01]),
        flood=FloodFigures(quiet=[0.1], flooded=[0.15]),
    )


def test_a_run_without_findings_has_passed() -> None:
    found = report(_measured(), seed=1)

    assert is_passed(found, is_quick=False)
    assert found["cases"] == LEAST_CASES
    assert found["loop_block_ms_max"] == 10.0  # the flood's are many requests' work
    assert found["polite_p99_over_quiet"] == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("own_5xx", "own_5xx"),
        ("crash", "crashes"),
        ("smuggled", "crashes"),
        ("crossed", "crashes"),
        ("hang", "hangs"),
        ("wrong_answer", "wrong_answers"),
        ("wrong_ending", "wrong_endings"),
    ],
)
def test_a_finding_fails_the_run(kind: Kind, key: str) -> None:
    measured = _measured()
    measured.findings["requests"].add(Finding(kind, "r0000001", "what was seen"))

    found = report(measured, seed=1)

    assert found[key] == 1
    assert found["findings"] == [f"{kind} r0000001"]
    assert not is_passed(found, is_quick=True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("loop_block_ms_max", 51.0),
        ("failing_worker_share", 0.03),
        ("polite_p99_over_quiet", 2.1),
        ("polite_failures", 1),
        ("slow_kept", 1),
        ("slow_beside_failed", 1),
        ("cases", LEAST_CASES - 1),
    ],
)
def test_a_figure_over_its_bound_fails_the_run(key: str, value: float) -> None:
    assert not is_passed(report(_measured(), seed=1) | {key: value}, is_quick=False)


def test_a_quick_run_has_fewer_cases() -> None:
    assert is_passed(report(_measured(), seed=1) | {"cases": 100}, is_quick=True)


def test_percentiles() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0, 2.0], 0.99) == 2.0
    assert percentile([], 0.5) is None
