"""Dashboards and alerts as code: what Grafana draws and what Prometheus computes and watches.

`python -m monitoring` writes them into the chart (helm/specgate: dashboards, rules, files/rules).
Nothing of the service imports this package, and it imports nothing of theirs: they meet in the
names of metrics, which tests/e2e/monitoring checks against a running service. The chart's values
take the rules' numbers from it.
"""
