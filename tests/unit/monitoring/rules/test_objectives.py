from pathlib import Path

import pytest

from tests.unit.monitoring.rules.promtool import evaluate

COMPLETED = 'gateway_requests_total{namespace="n", outcome="completed"}'
FAILED = 'gateway_requests_total{namespace="n", outcome="upstream_error"}'
LIMITED = 'gateway_requests_total{namespace="n", outcome="rejected"}'
BURN = "namespace:gateway_failures_burn:rate5m"


@pytest.mark.parametrize(
    ("series", "burn"),
    [
        pytest.param(
            {COMPLETED: "0+98x10", FAILED: "0+2x10"}, 20, id="2 % failed of 0.1 % allowed"
        ),
        pytest.param({COMPLETED: "0+98x10"}, 0, id="none failed"),
        pytest.param({COMPLETED: "0+98x10", LIMITED: "0+2x10"}, 0, id="rejected by a rate limit"),
    ],
)
def test_failures_burn_the_budget(tmp_path: Path, series: dict[str, str], burn: float) -> None:
    expected = [{"labels": '{namespace="n"}', "value": burn}]

    assert evaluate(tmp_path, series, f"round({BURN}, 0.1)", at="10m", expected=expected) == ""
