from pathlib import Path

import pytest

from tests.unit.monitoring.rules.promtool import evaluate

DRAFTED = 'engine_spec_draft_tokens_total{namespace="n", instance="w", source="suffix"}'
ACCEPTED = 'engine_spec_accepted_tokens_total{namespace="n", instance="w", source="suffix"}'
RATIO = "namespace_source:engine_spec_acceptance:ratio_rate5m"
LABELS = '{namespace="n", source="suffix"}'

COMPLETED = 'gateway_requests_total{namespace="n", outcome="completed"}'
FAILED = 'gateway_requests_total{namespace="n", outcome="upstream_error"}'
LIMITED = 'gateway_requests_total{namespace="n", outcome="rejected"}'
BURN = "namespace:gateway_failures_burn:rate5m"


@pytest.mark.parametrize(
    ("series", "ratio"),
    [
        pytest.param({DRAFTED: "0+100x10", ACCEPTED: "0+60x10"}, 0.6, id="some accepted"),
        pytest.param({DRAFTED: "0+100x10"}, 0, id="none ever accepted"),
    ],
)
def test_the_acceptance_ratio_exists_whenever_there_are_drafts(
    tmp_path: Path, series: dict[str, str], ratio: float
) -> None:
    expected = [{"labels": f"{RATIO}{LABELS}", "value": ratio}]

    assert evaluate(tmp_path, series, RATIO, at="10m", expected=expected) == ""


def test_requests_above_95_percent_are_perfect(tmp_path: Path) -> None:
    histogram = "gateway_request_acceptance_ratio"
    labels = 'namespace="n", model="m", source="suffix"'
    name = "namespace_model_source:gateway_request_perfect:ratio_rate30m"
    series = {
        f'{histogram}_bucket{{{labels}, le="0.95"}}': "0+3x40",
        f"{histogram}_count{{{labels}}}": "0+4x40",
    }
    expected = [{"labels": f"{name}{{{labels}}}", "value": 0.25}]

    assert evaluate(tmp_path, series, name, at="40m", expected=expected) == ""


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
