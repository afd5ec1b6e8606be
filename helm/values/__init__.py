"""Every value of the chart: its type, its bounds, its default, and what it means."""

from helm.values.chart import LOOSER, SET_BY_THE_CHART, SETTINGS, ChartValues

__all__ = ["LOOSER", "SETTINGS", "SET_BY_THE_CHART", "ChartValues"]
