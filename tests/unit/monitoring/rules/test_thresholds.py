import re
from typing import Any, get_args

import pytest
from prometheus_client import CollectorRegistry

from gateway.telemetry import GatewayMetrics
from monitoring.rules import Thresholds, rule_files, rule_templates, with_defaults
from monitoring.rules.thresholds import FirstTokenBound, TokenGapBound


def test_a_place_holds_the_default_as_the_chart_shows_it() -> None:
    text = "a > [[burnHour]] and b > [[perfectDraftTokens]], [[firstTokenSeconds]] s, [5m]"

    assert with_defaults(text) == "a > 14.4 and b > 100, 2.0 s, [5m]"
    assert with_defaults("[[runbookUrl]]#entry") == "docs/runbook.md#entry"


def test_a_place_for_nothing_is_an_error() -> None:
    with pytest.raises(KeyError, match="nothing"):
        with_defaults("a > [[nothing]]")


def test_every_value_has_its_place_in_a_rule() -> None:
    places = {
        place for text in rule_templates().values() for place in re.findall(r"\[\[(\w+)\]\]", text)
    }

    assert places == {"runbookUrl", *Thresholds.model_fields}


def test_plain_files_have_no_places() -> None:
    assert not any("[[" in text for text in rule_files().values())


@pytest.mark.parametrize(
    ("histogram", "choices"),
    [
        ("gateway_time_to_first_token_seconds", FirstTokenBound),
        ("gateway_inter_token_seconds", TokenGapBound),
    ],
)
def test_a_promised_time_can_only_be_the_bound_of_a_bucket(histogram: str, choices: Any) -> None:
    registry = CollectorRegistry()
    metrics = GatewayMetrics(registry)
    metrics.time_to_first_token.labels("m")

    bounds = {
        sample.labels["le"]
        for family in registry.collect()
        for sample in family.samples
        if sample.name == f"{histogram}_bucket"
    }
    assert set(get_args(choices)) <= bounds
