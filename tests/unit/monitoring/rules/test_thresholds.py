import re
from typing import Any, get_args

import pytest
from prometheus_client import CollectorRegistry

from gateway.telemetry import GatewayMetrics
from monitoring.rules import Thresholds, rule_files, rule_templates, with_defaults
from monitoring.rules.thresholds import FirstTokenBound, TokenGapBound


def test_an_unknown_placeholder_is_an_error() -> None:
    with pytest.raises(KeyError, match="nothing"):
        with_defaults("a > [[nothing]]")


def test_every_threshold_has_a_placeholder_in_a_rule() -> None:
    templates = "".join(rule_templates().values())

    names = set(re.findall(r"\[\[(\w+)\]\]", templates))
    assert names == {"runbookUrl", *Thresholds.model_fields}


def test_plain_files_have_no_placeholders() -> None:
    assert not any("[[" in text for text in rule_files().values())


@pytest.mark.parametrize(
    ("histogram", "choices"),
    [
        ("gateway_time_to_first_token_seconds", FirstTokenBound),
        ("gateway_inter_token_seconds", TokenGapBound),
    ],
)
def test_times_of_objectives_are_bucket_bounds(histogram: str, choices: Any) -> None:
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
