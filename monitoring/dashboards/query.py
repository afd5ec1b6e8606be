"""A panel's queries.

A query is PromQL in which `@gateway`, `@model` and `@worker` stand for the matchers of the
dashboard's variables, inside the braces of a selector:

    sum(rate(gateway_requests_total{@model, outcome="completed"}[$window]))
"""

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.dashboard import DataSourceRef
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATA_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

_MATCHERS = {
    "@gateway": 'namespace=~"$namespace"',
    "@model": 'namespace=~"$namespace", model=~"$model"',
    "@worker": 'namespace=~"$namespace", instance=~"$worker"',
}


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel.

    Attributes:
        promql: See the module.
        legend: Name of each series; `{{label}}` is replaced by the label's value.
    """

    promql: str
    legend: str = ""

    @property
    def expression(self) -> str:
        """The query with Grafana's variables."""
        text = self.promql
        for sign, matchers in _MATCHERS.items():
            text = text.replace(sign, matchers)
        return text


def targets(
    queries: Sequence[Query],
    *,
    instant: bool = False,
    exemplars: bool = False,
    layout: PromQueryFormat = PromQueryFormat.TIME_SERIES,
) -> list[Builder[Dataquery]]:
    """Return Grafana's targets A, B and so on.

    Args:
        queries: In the order of the legend.
        instant: Query only the latest values.
        exemplars: Query the exemplars of the buckets too.
        layout: Format of the result.
    """
    made: list[Builder[Dataquery]] = []
    for number, query in enumerate(queries):
        target = (
            prometheus.Dataquery()
            .ref_id(chr(ord("A") + number))
            .expr(query.expression)
            .legend_format(query.legend)
            .format(layout)
            .exemplar(exemplars)
        )
        made.append(target.instant() if instant else target.range())
    return made


def per_second(counter: str, *, by: str, legend: str = "") -> Query:
    """Return the rate of a counter, summed by a label, whose value is the default legend."""
    return Query(f"sum by ({by}) (rate({counter}[$window]))", legend or f"{{{{{by}}}}}")


def quantiles(histogram: str, *, by: str, legend: str) -> tuple[Query, Query]:
    """Median and 99th percentile of a histogram.

    Args:
        histogram: Selector of its buckets without the window, such as `x_bucket{@model}`.
        by: Labels to group by, in addition to `le`; may be empty.
        legend: Follows `p50` and `p99`.
    """
    labels = ", ".join(("le", by)) if by else "le"

    def at(quantile: float, name: str) -> Query:
        rates = f"sum by ({labels}) (rate({histogram}[$window]))"
        return Query(f"histogram_quantile({quantile:g}, {rates})", f"{name} {legend}".strip())

    return at(0.5, "p50"), at(0.99, "p99")


def happened(counter: str) -> str:
    """Return PromQL for the number of rare events in the window.

    The first event creates the series with the value 1, which `increase` misses; so a series that
    is younger than the window counts with its value.
    """
    return f"(({counter} unless {counter} offset $window) or increase({counter}[$window]))"


def mean(histogram: str, matchers: str, *, by: str) -> str:
    """Return PromQL for the mean of a histogram's observations."""
    total, count = (
        f"sum by ({by}) (rate({histogram}_{part}{{{matchers}}}[$window]))"
        for part in ("sum", "count")
    )
    return f"{total} / {count}"
