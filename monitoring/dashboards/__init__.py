"""The three dashboards; `panels.py` holds what they share, and each has a file of its own."""

from monitoring.dashboards.files import dashboard_files

__all__ = ["dashboard_files"]
