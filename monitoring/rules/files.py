"""The rules as files: with the default thresholds, and as templates for the chart."""

from collections.abc import Mapping
from typing import Any

import yaml

from monitoring.rules.alerts import ALERTS
from monitoring.rules.recordings import RECORDINGS
from monitoring.rules.rule import Alert
from monitoring.rules.thresholds import with_defaults

_GENERATED = "# Written by `make dashboards` from monitoring/rules; do not edit.\n"


class _Readable(yaml.SafeDumper):
    """Writes strings of several lines as blocks."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else "")


_Readable.add_representer(str, _represent_text)


def rule_files() -> Mapping[str, str]:
    """Return the rule files for Prometheus by name: recordings and alerts, one group each."""
    return {name: with_defaults(text) for name, text in rule_templates().items()}


def rule_templates() -> Mapping[str, str]:
    """Return the same files with placeholders `[[name]]` for the chart's values."""
    recordings = [{"record": rule.name, "expr": rule.query} for rule in RECORDINGS]
    return {
        "recordings.yaml": _file("specgate-recordings", recordings),
        "alerts.yaml": _file("specgate-alerts", [_alert(alert) for alert in ALERTS]),
    }


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.lasting,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": alert.runbook_url,
        },
    }


def _file(group: str, rules: list[dict[str, Any]]) -> str:
    document = {"groups": [{"name": group, "rules": rules}]}
    text: str = yaml.dump(document, Dumper=_Readable, sort_keys=False, width=1000)
    return _GENERATED + text
