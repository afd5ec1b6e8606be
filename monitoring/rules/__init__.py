"""Prometheus' recording rules and alerts."""

from monitoring.rules.alerts import ALERTS
from monitoring.rules.files import rule_files, rule_templates
from monitoring.rules.objectives import OBJECTIVES, Objective
from monitoring.rules.recordings import RECORDINGS
from monitoring.rules.rule import Alert, Condition, Recording
from monitoring.rules.thresholds import RUNBOOK, Thresholds, with_defaults

__all__ = [
    "ALERTS",
    "OBJECTIVES",
    "RECORDINGS",
    "RUNBOOK",
    "Alert",
    "Condition",
    "Objective",
    "Recording",
    "Thresholds",
    "rule_files",
    "rule_templates",
    "with_defaults",
]
