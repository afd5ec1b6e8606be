"""The dashboards as JSON, as Grafana stores and imports it."""

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
    """File names and texts."""
    return {name: _encode(_numbered(builder().build())) for name, builder in _BUILDERS.items()}


def _numbered(dashboard: Dashboard) -> Dashboard:
    """Give every panel an id, which is in links to it."""
    for place, panel in enumerate(dashboard.panels or (), 1):
        panel.id_val = place
    return dashboard


def _encode(dashboard: Dashboard) -> str:
    # Keys in order: a new version of the SDK must not look like a change.
    return json.dumps(dashboard, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"
