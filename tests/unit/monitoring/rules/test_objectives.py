from pathlib import Path

import pytest

from monitoring.rules import OBJECTIVES, Objective
from tests.unit.monitoring.rules.promtool import evaluate

COMPLETED = 'gateway_requests_total{namespace="n", outcome="completed"}'
FAILED = 'gateway_requests_total{namespace="n", outcome="upstream_error"}'
LIMITED = 'gateway_requests_total{namespace="n", outcome="rejected"}'
BURN = "namespace:gateway_failures_burn:rate5m"


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.name)
def test_a_burn_rate_is_the_bad_share_over_the_budget(objective: Objective) -> None:
    query = objective.burn_query("30m")

    assert query.count("[30m]") >= 2
    assert "WINDOW" not in query
    assert query.endswith(f"/ (1 - {objective.kept})")
    assert objective.burn("30m").endswith(f":gateway_{objective.name}_burn:rate30m")


@pytest.mark.parametrize(
    ("series", "burn"),
    [
        pytest.param({COMPLETED: "0+98x10", FAILED: "0+2x10"}, 20, id="2 % of 0.1 %"),
        pytest.param({COMPLETED: "0+98x10"}, 0, id="none failed"),
        pytest.param({COMPLETED: "0+98x10", LIMITED: "0+2x10"}, 0, id="callers over their limit"),
    ],
)
def test_failures_burn_the_budget(tmp_path: Path, series: dict[str, str], burn: float) -> None:
    expected = [{"labels": '{namespace="n"}', "value": burn}]

    assert evaluate(tmp_path, series, f"round({BURN}, 0.1)", at="10m", expected=expected) == ""
