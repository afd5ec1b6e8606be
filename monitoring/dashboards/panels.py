"""The kinds of panels, with their common defaults.

Every kind takes a title, a description, its queries, and a unit where it has one.
"""

from typing import TypeVar

from grafana_foundation_sdk.builders import (
    barchart,
    common,
    dashboard,
    heatmap,
    stat,
    statetimeline,
    timeseries,
)
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common as shape
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from monitoring.dashboards.query import DATA_SOURCE, Query, targets

NUMBER_WIDTH = 4
"""In columns; six numbers fill a row of 24."""


Panel = TypeVar(
    "Panel", barchart.Panel, heatmap.Panel, stat.Panel, statetimeline.Panel, timeseries.Panel
)


def _new(
    panel: Panel, title: str, description: str, queries: list[Builder[Dataquery]], unit: str | None
) -> Panel:
    """Return a panel of half the width; `unit` is one of Grafana's."""
    panel = panel.title(title).description(description).datasource(DATA_SOURCE).targets(queries)
    if unit is not None:
        panel = panel.unit(unit)
    return panel.span(12).height(8)


def lines(
    title: str, description: str, *queries: Query, unit: str | None = None
) -> timeseries.Panel:
    """Lines over time, from 0 up."""
    return (
        _new(timeseries.Panel(), title, description, targets(queries), unit)
        .min(0)
        .fill_opacity(8)
        .show_points(shape.VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .display_mode(shape.LegendDisplayMode.LIST)
            .placement(shape.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(common.VizTooltipOptions().mode(shape.TooltipDisplayMode.MULTI))
    )


def layers(
    title: str,
    description: str,
    *queries: Query,
    unit: str | None = None,
    mode: shape.StackingMode = shape.StackingMode.NORMAL,
) -> timeseries.Panel:
    """Stacked areas over time: parts of a whole."""
    stacking = common.StackingConfig().mode(mode)
    return lines(title, description, *queries, unit=unit).fill_opacity(40).stacking(stacking)


def shares(
    title: str, description: str, *queries: Query, unit: str | None = None
) -> timeseries.Panel:
    """Stacked areas over time, scaled to 100 %."""
    return layers(title, description, *queries, unit=unit, mode=shape.StackingMode.PERCENT)


def number(title: str, description: str, query: Query, *, unit: str | None = None) -> stat.Panel:
    """The latest value in large digits, with a small graph."""
    return (
        _new(stat.Panel(), title, description, targets([query]), unit)
        .span(NUMBER_WIDTH)
        .height(4)
        .graph_mode(shape.BigValueGraphMode.AREA)
        .color_mode(shape.BigValueColorMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )


def heat(title: str, description: str, query: Query, *, exemplars: bool = False) -> heatmap.Panel:
    """A heat map of a histogram over time.

    Args:
        title: Title of the panel.
        description: What it shows.
        query: Increase of the buckets, by `le`.
        exemplars: Show exemplars as points with their labels.
    """
    buckets = targets([query], exemplars=exemplars, layout=PromQueryFormat.HEATMAP)
    return (
        _new(heatmap.Panel(), title, description, buckets, None)
        .calculate(False)
        .color(
            heatmap.HeatmapColorOptions()
            .mode(HeatmapColorMode.SCHEME)
            .scheme("Oranges")
            .steps(64)
            .exponent(0.5)
        )
        .show_y_histogram()
    )


def bars(
    title: str, description: str, query: Query, *, label: str, unit: str | None = None
) -> barchart.Panel:
    """The latest values as bars, sorted by a numeric label.

    Args:
        title: Title of the panel.
        description: What it shows.
        query: Returns one value for each value of the label.
        label: The label.
        unit: Unit of the values.
    """
    latest = targets([query], instant=True, layout=PromQueryFormat.TABLE)
    as_number = {"targetField": label, "destinationType": "number"}
    transformations = {
        "convertFieldType": {"fields": {}, "conversions": [as_number]},
        "sortBy": {"fields": {}, "sort": [{"field": label}]},
        "organize": {"excludeByName": {"Time": True}},
    }
    panel = _new(barchart.Panel(), title, description, latest, unit)
    for name, options in transformations.items():
        panel = panel.with_transformation(model.DataTransformerConfig(id_val=name, options=options))
    return panel.min(0).x_field(label).legend(common.VizLegendOptions().show_legend(False))


def states(title: str, description: str, query: Query, *, off: str, on: str) -> statetimeline.Panel:
    """States over time, for values of 0 and 1, named `off` and `on`."""
    names = model.ValueMap(
        options={
            "0": model.ValueMappingResult(text=off, color="red", index=0),
            "1": model.ValueMappingResult(text=on, color="green", index=1),
        }
    )
    return (
        _new(statetimeline.Panel(), title, description, targets([query]), None)
        .mappings([names])
        .show_value(shape.VisibilityMode.NEVER)
        .merge_values(True)
    )


def worse_above(*bounds: float) -> dashboard.ThresholdsConfig:
    """Green below the first bound, orange from there, red from the second."""
    return _coloured(("green", "orange", "red"), bounds)


def worse_below(*bounds: float) -> dashboard.ThresholdsConfig:
    """Red below the first bound, orange from there, green from the second."""
    return _coloured(("red", "orange", "green"), bounds)


def _coloured(colours: tuple[str, ...], bounds: tuple[float, ...]) -> dashboard.ThresholdsConfig:
    starts = (None, *bounds)
    return dashboard.ThresholdsConfig().steps(
        [
            model.Threshold(color=colour, value=start)
            for colour, start in zip(colours, starts, strict=True)
        ]
    )
