"""What all dashboards share: variables, time range, links to the others."""

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model

from monitoring.dashboards.query import DATA_SOURCE

_TAG = "specgate"
_ALL = model.VariableOption(selected=True, text="All", value="$__all")


def new_dashboard(
    title: str, description: str, rows: Mapping[str, Sequence[Builder[model.Panel]]]
) -> dashboard.Dashboard:
    """Return a dashboard.

    Args:
        title: Follows the name of the project; also part of the URL, so it must never change.
        description: What it shows.
        rows: Panels by the title of their row.
    """
    board = (
        dashboard.Dashboard(f"specgate / {title}")
        .uid(f"specgate-{title.lower()}")
        .description(description)
        .tags([_TAG])
        .readonly()
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("specgate")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags([_TAG])
            .keep_time(True)
            .include_vars(True)
        )
        .with_variable(
            dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
        .with_variable(_choice("namespace", "label_values(gateway_workers, namespace)"))
        .with_variable(
            _choice("model", 'label_values(gateway_requests_total{namespace=~"$namespace"}, model)')
        )
        .with_variable(
            _choice("worker", 'label_values(engine_spec_price{namespace=~"$namespace"}, instance)')
        )
        .with_variable(
            dashboard.IntervalVariable("window")
            .label("Rate window")
            .values("1m,5m,15m,1h,6h")
            .current(model.VariableOption(selected=True, text="5m", value="5m"))
        )
    )
    for name, panels in rows.items():
        board = board.with_row(dashboard.Row(name))
        for panel in panels:
            board = board.with_panel(panel)
    return board


def _choice(name: str, query: str) -> dashboard.QueryVariable:
    """Return a variable; its default also matches series without the label."""
    return (
        dashboard.QueryVariable(name)
        .label(name.capitalize())
        .datasource(DATA_SOURCE)
        .query(query)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(_ALL)
    )
