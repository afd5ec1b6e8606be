"""Grafana dashboards and Prometheus rules as code.

`python -m monitoring` writes them into the chart (helm/specgate: dashboards, rules, files/rules).
Neither gateway nor engine imports this package or is imported by it; they share only the names of
metrics, which tests/e2e/monitoring checks against a running service. The chart's values define the
rules' thresholds with `monitoring.rules.Thresholds`.
"""
