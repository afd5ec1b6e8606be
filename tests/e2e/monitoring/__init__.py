"""Dashboards and alerts against a real service and a real Prometheus."""
