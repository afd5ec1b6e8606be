"""The kinds of panels, with their common defaults."""

from grafana_foundation_sdk.builders import (
    barchart,
    common,
    dashboard,
    heatmap,
    stat,
    statetimeline,
    timeseries,
)
from grafana_foundation_sdk.models import common as shape
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from monitoring.dashboards.query import DATA_SOURCE, Query, targets

NUMBER_WIDTH = 4
"""In columns; six numbers fill a row of 24."""


def lines(*queries: Query) -> timeseries.Panel:
    """Lines over time, from 0 up, half a row wide."""
    return (
        timeseries.Panel()
        .datasource(DATA_SOURCE)
        .targets(targets(queries))
        .span(12)
        .height(8)
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


def layers(*queries: Query) -> timeseries.Panel:
    """Stacked areas over time: parts of a whole."""
    return (
        lines(*queries)
        .fill_opacity(40)
        .stacking(common.StackingConfig().mode(shape.StackingMode.NORMAL))
    )


def shares(*queries: Query) -> timeseries.Panel:
    """Stacked areas over time, scaled to 100 %."""
    return (
        lines(*queries)
        .fill_opacity(40)
        .stacking(common.StackingConfig().mode(shape.StackingMode.PERCENT))
    )


def number(query: Query) -> stat.Panel:
    """The latest value in large digits, with a small graph."""
    return (
        stat.Panel()
        .datasource(DATA_SOURCE)
        .targets(targets([query]))
        .span(NUMBER_WIDTH)
        .height(4)
        .graph_mode(shape.BigValueGraphMode.AREA)
        .color_mode(shape.BigValueColorMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )


def heat(query: Query, *, exemplars: bool = False) -> heatmap.Panel:
    """A heat map of a histogram over time.

    Args:
        query: Increase of the buckets, by `le`.
        exemplars: Show exemplars as points with their labels.
    """
    return (
        heatmap.Panel()
        .datasource(DATA_SOURCE)
        .targets(targets([query], exemplars=exemplars, layout=PromQueryFormat.HEATMAP))
        .span(12)
        .height(8)
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


def bars(query: Query, *, label: str) -> barchart.Panel:
    """The latest values as bars, sorted by a numeric label.

    Args:
        query: Returns one value for each value of the label.
        label: The label.
    """
    return (
        barchart.Panel()
        .datasource(DATA_SOURCE)
        .targets(targets([query], instant=True, layout=PromQueryFormat.TABLE))
        .span(12)
        .height(8)
        .min(0)
        .with_transformation(
            model.DataTransformerConfig(
                id_val="convertFieldType",
                options={
                    "fields": {},
                    "conversions": [{"targetField": label, "destinationType": "number"}],
                },
            )
        )
        .with_transformation(
            model.DataTransformerConfig(
                id_val="sortBy", options={"fields": {}, "sort": [{"field": label}]}
            )
        )
        .with_transformation(
            model.DataTransformerConfig(
                id_val="organize", options={"excludeByName": {"Time": True}}
            )
        )
        .x_field(label)
        .legend(common.VizLegendOptions().show_legend(False))
    )


def states(query: Query, *, off: str, on: str) -> statetimeline.Panel:
    """States over time, for values of 0 and 1, named `off` and `on`."""
    return (
        statetimeline.Panel()
        .datasource(DATA_SOURCE)
        .targets(targets([query]))
        .span(12)
        .height(8)
        .mappings(
            [
                model.ValueMap(
                    options={
                        "0": model.ValueMappingResult(text=off, color="red", index=0),
                        "1": model.ValueMappingResult(text=on, color="green", index=1),
                    }
                )
            ]
        )
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
