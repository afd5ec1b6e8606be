"""Draws a dashboard in Grafana's layout, from the results of its queries."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tests.e2e.monitoring.prometheus import Prometheus, Series
from tests.e2e.monitoring.queries import filled

_COLUMNS = 24
_WIDTH, _ROW = 15.0, 0.34  # inches: of a dashboard, and the height of one of its rows
_COLOURS = (
    "#2a6fb5", "#d9822b", "#3d8a4e", "#b5482a", "#7a5ba6", "#c2a33a", "#4fa3a5", "#8a5a44",
)  # fmt: skip
_OFF, _ON = "#c4433f", "#5aa469"
_INK, _FAINT = "#2b2f36", "#8b929c"
_POINTS = 240


@dataclass(frozen=True)
class Span:
    """A time to draw.

    Attributes:
        first: Unix time.
        last: Unix time.
        window: Of rates.
    """

    first: float
    last: float
    window: str

    @property
    def step(self) -> float:
        """Seconds between two points of a line."""
        return max(1.0, (self.last - self.first) / _POINTS)


@dataclass(frozen=True)
class _Line:
    name: str
    seconds: list[float]
    values: list[float]


def draw(dashboard: Mapping[str, Any], prometheus: Prometheus, span: Span, path: Path) -> None:
    """Write the picture of a dashboard.

    Args:
        dashboard: As the chart holds it.
        prometheus: Has the data.
        span: What is drawn.
        path: A PNG.
    """
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    height = (rows + 1.5) * _ROW
    figure = Figure(figsize=(_WIDTH, height), facecolor="white")
    figure.text(0.01, 1 - 0.7 * _ROW / height, dashboard["title"], size=15, weight="bold",
                color=_INK, va="center")  # fmt: skip
    for panel in dashboard["panels"]:
        grid = panel["gridPos"]
        left, width = grid["x"] / _COLUMNS, grid["w"] / _COLUMNS
        top = 1 - (1.5 + grid["y"]) * _ROW / height
        if panel["type"] == "row":
            figure.text(0.01, top - 0.5 * _ROW / height, panel["title"], size=11, weight="bold",
                        color=_FAINT, va="center")  # fmt: skip
            continue
        axes = figure.add_axes(
            (
                left + 0.035,
                top - (grid["h"] - _BELOW[panel["type"]]) * _ROW / height,
                width - 0.05,
                (grid["h"] - 1.1 - _BELOW[panel["type"]]) * _ROW / height,
            )
        )
        _KINDS[panel["type"]](axes, panel, prometheus, span)
        axes.set_title(panel["title"], loc="left", size=9.5, color=_INK, y=1.0)
        axes.tick_params(labelsize=7, colors=_FAINT, length=2)
        axes.spines[:].set_color("#d5d9de")
    figure.savefig(path, dpi=72)


def _lines(panel: Mapping[str, Any], prometheus: Prometheus, span: Span) -> list[_Line]:
    found = []
    for target in panel["targets"]:
        series = prometheus.query_range(
            filled(target["expr"], window=span.window),
            first=span.first,
            last=span.last,
            step=span.step,
        )
        found += [_line(target["legendFormat"], each, span) for each in series]
    return found


def _line(legend: str, series: Series, span: Span) -> _Line:
    name = re.sub(r"\{\{(\w+)\}\}", lambda match: series.labels.get(match[1], ""), legend)
    seconds: list[float] = []
    values: list[float] = []
    for when, value in series.points:
        if seconds and when - span.first - seconds[-1] > 2 * span.step:  # nothing was there
            seconds.append(seconds[-1] + span.step)
            values.append(math.nan)
        seconds.append(when - span.first)
        values.append(value)
    return _Line(name.strip(), seconds, values)


def _timeseries(axes: Axes, panel: Mapping[str, Any], prometheus: Prometheus, span: Span) -> None:
    found = _lines(panel, prometheus, span)
    custom = panel["fieldConfig"]["defaults"].get("custom", {})
    stacking = custom.get("stacking", {}).get("mode", "none")
    if stacking == "none":
        for index, line in enumerate(found):
            colour = _COLOURS[index % len(_COLOURS)]
            axes.plot(line.seconds, line.values, label=line.name, color=colour, lw=1.3)
    elif found:
        _stack(axes, found, whole=stacking == "percent", span=span)
    _axis(axes, "percentunit" if stacking == "percent" else _unit(panel), span)
    top = panel["fieldConfig"]["defaults"].get("max")
    axes.set_ylim(0, top or max(axes.get_ylim()[1], 1e-9))
    if any(line.name for line in found):
        axes.legend(fontsize=6.5, frameon=False, ncols=5, loc="upper left", labelcolor=_INK,
                    bbox_to_anchor=(-0.02, -0.09), columnspacing=1.2, handlelength=1.2)  # fmt: skip


def _stack(axes: Axes, found: Sequence[_Line], *, whole: bool, span: Span) -> None:
    grid = np.arange(0, span.last - span.first, span.step)
    layers = np.array(
        [
            np.nan_to_num(np.interp(grid, line.seconds, line.values, left=0, right=0))
            for line in found
        ]
    )
    if whole:
        layers = layers / np.maximum(layers.sum(axis=0), 1e-12)
    colours = [_COLOURS[index % len(_COLOURS)] for index in range(len(found))]
    names = [line.name for line in found]
    axes.stackplot(grid, layers, labels=names, colors=colours, alpha=0.75)


def _stat(axes: Axes, panel: Mapping[str, Any], prometheus: Prometheus, span: Span) -> None:
    axes.set_axis_off()
    found = [line for line in _lines(panel, prometheus, span) if line.values]
    if not found:
        return
    line = found[0]
    numbers = [value for value in line.values if math.isfinite(value)]
    axes.fill_between(line.seconds, np.nan_to_num(line.values), color="#2a6fb5", alpha=0.15, lw=0)
    axes.set_ylim(0, 2.2 * max([*numbers, 1e-9]))
    text = _shown(numbers[-1], _unit(panel)) if numbers else "-"
    axes.text(0.5, 0.62, text, transform=axes.transAxes, ha="center", va="center", size=19,
              weight="bold", color="#2a6fb5")  # fmt: skip


def _heatmap(axes: Axes, panel: Mapping[str, Any], prometheus: Prometheus, span: Span) -> None:
    found = sorted(_lines(panel, prometheus, span), key=lambda line: float(line.name))
    grid = np.arange(0, span.last - span.first + span.step, span.step)
    cumulated = [
        np.nan_to_num(np.interp(grid[:-1], line.seconds, line.values, left=0)) for line in found
    ]
    counts = np.diff(np.array([np.zeros(len(grid) - 1), *cumulated]), axis=0).clip(min=0)
    edges = np.arange(len(found) + 1)
    axes.pcolormesh(grid, edges, np.where(counts > 0, counts, np.nan), cmap="Oranges")
    bounds = [float(line.name) for line in found]
    shown = range(0, len(found), max(1, len(found) // 8))
    axes.set_yticks([index + 1 for index in shown], [f"{bounds[index]:g}" for index in shown])
    (target,) = panel["targets"]
    if target.get("exemplar"):
        points = prometheus.exemplars(
            filled(target["expr"], window=span.window), first=span.first, last=span.last
        )
        axes.scatter(
            [point["timestamp"] - span.first for point in points],
            [np.searchsorted(bounds, float(point["value"])) + 0.5 for point in points],
            marker="D", s=12, color="#7a3fb5", zorder=3,
            label="a request, by its request_id",
        )  # fmt: skip
        axes.legend(fontsize=6.5, loc="upper left", labelcolor=_INK)
    _time(axes, span)


def _barchart(axes: Axes, panel: Mapping[str, Any], prometheus: Prometheus, span: Span) -> None:
    (target,) = panel["targets"]
    label = panel["options"]["xField"]
    found = prometheus.query(filled(target["expr"], window=span.window), at=span.last)
    values = sorted((int(each.labels[label]), each.points[0][1]) for each in found)
    axes.bar(range(len(values)), [value for _, value in values], color=_COLOURS[0])
    shown = range(0, len(values), max(1, len(values) // 16))
    axes.set_xticks(list(shown), [str(values[index][0]) for index in shown])
    axes.set_xlabel(label, size=7, color=_FAINT)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _shown(value, _unit(panel))))


def _timeline(axes: Axes, panel: Mapping[str, Any], prometheus: Prometheus, span: Span) -> None:
    found = _lines(panel, prometheus, span)
    for index, line in enumerate(found):
        axes.scatter(
            line.seconds, [index] * len(line.seconds), marker="s", s=60, linewidths=0,
            c=[_ON if value == 1 else _OFF if value == 0 else "none" for value in line.values],
        )  # fmt: skip
        axes.text(0.01, index + 0.18, line.name, size=7, color=_INK,
                  transform=axes.get_yaxis_transform())  # fmt: skip
    axes.set_yticks([])
    axes.set_ylim(-0.6, max(len(found), 1) - 0.4)
    _time(axes, span)


_KINDS: Mapping[str, Callable[[Axes, Mapping[str, Any], Prometheus, Span], None]] = {
    "timeseries": _timeseries,
    "stat": _stat,
    "heatmap": _heatmap,
    "barchart": _barchart,
    "state-timeline": _timeline,
}


_BELOW: Mapping[str, float] = {
    "timeseries": 1.6,
    "stat": 0.75,
    "heatmap": 1.2,
    "barchart": 1.2,
    "state-timeline": 1.2,
}
"""Rows of a panel below its axes: for times and the legend."""


def _unit(panel: Mapping[str, Any]) -> str:
    unit: str = panel["fieldConfig"]["defaults"].get("unit", "short")
    return unit


def _axis(axes: Axes, unit: str, span: Span) -> None:
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _shown(value, unit)))
    axes.grid(visible=True, color="#eceef1", lw=0.6)
    _time(axes, span)


def _time(axes: Axes, span: Span) -> None:
    axes.set_xlim(0, span.last - span.first)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} s"))


def _shown(value: float, unit: str) -> str:
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s":
        return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.3g} s"
    if unit == "bytes":
        return f"{value / 2**20:.3g} MiB"
    return f"{value:.3g}" + {"tok/s": " tok/s", "reqps": " req/s", "ops": "/s"}.get(unit, "")
