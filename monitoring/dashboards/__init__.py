"""The three dashboards, one module each."""

from monitoring.dashboards.files import dashboard_files

__all__ = ["dashboard_files"]
