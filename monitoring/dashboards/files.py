"""The dashboards in Grafana's JSON format."""

import json
from collections.abc import Mapping

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from monitoring.dashboards.acceptance import acceptance_dashboard
from monitoring.dashboards.fleet import fleet_dashboard
from monitoring.dashboards.latency import latency_dashboard

_BUILDERS = {
    "acceptance.json": acceptance_dashboard,
    "latency.json": latency_dashboard,
    "fleet.json": fleet_dashboard,
}


def dashboard_files() -> Mapping[str, str]:
    """Return the text of each dashboard by its file name."""
    return {name: _encode(_numbered(builder().build())) for name, builder in _BUILDERS.items()}


def _numbered(dashboard: Dashboard) -> Dashboard:
    """Give every panel its ID, which links to the panel contain."""
    for number, panel in enumerate(dashboard.panels or (), 1):
        panel.id_val = number
    return dashboard


def _encode(dashboard: Dashboard) -> str:
    # Keys are sorted so that the SDK's order of them does not matter.
    return json.dumps(dashboard, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"
