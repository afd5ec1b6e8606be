"""Values of monitoring, network policies and traces."""

from typing import Annotated, Any

from pydantic import Field

from helm.values.kubernetes import Labels, Values
from monitoring.rules import RUNBOOK, Thresholds

Duration = Annotated[str, Field(pattern=r"^([0-9]+(ms|s|m|h))+$")]


class Scraping(Values):
    """A ServiceMonitor for the gateway and a PodMonitor for the engine (Prometheus operator)."""

    enabled: bool = Field(False, description="Create a ServiceMonitor and a PodMonitor.")
    interval: Duration = Field("15s", description="Scrape interval.")
    labels: Labels = Field({}, description="Labels by which your Prometheus selects them.")


class Rules(Values):
    """Alerts and recording rules (`files/rules/` of the chart) as PrometheusRules."""

    enabled: bool = Field(False, description="Create the PrometheusRules.")
    labels: Labels = Field({}, description="Labels by which your Prometheus selects them.")
    runbookUrl: Annotated[str, Field(pattern=r"^[^\s'\"#]+$")] = Field(
        RUNBOOK,
        description="URL where you publish docs/runbook.md; an alert's `runbook_url` is this URL, "
        "`#` and the entry's anchor.",
    )
    thresholds: Thresholds = Field(
        Thresholds(), description="Thresholds of the alerts and service level objectives."
    )


class Dashboards(Values):
    """Grafana dashboards (`dashboards/` of the chart) as ConfigMaps for Grafana's sidecar."""

    enabled: bool = Field(False, description="Create the ConfigMaps.")
    labels: Labels = Field(
        {"grafana_dashboard": "1"}, description="Labels by which the sidecar selects them."
    )
    annotations: Labels = Field({}, description="Annotations, such as Grafana's folder.")


class Monitoring(Values):
    """Metrics, alerts and dashboards."""

    scraping: Scraping = Field(
        Scraping(), description="Metrics for Prometheus (the operator must be installed)."
    )
    rules: Rules = Field(
        Rules(), description="Alerts and recording rules (the operator must be installed)."
    )
    dashboards: Dashboards = Field(Dashboards(), description="Dashboards for Grafana's sidecar.")


class NetworkPolicy(Values):
    """NetworkPolicies; the cluster's network plugin must enforce them."""

    enabled: bool = Field(
        True, description="Workers accept connections from the gateway and Prometheus only."
    )
    prometheus: list[dict[str, Any]] = Field(
        [
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
                "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
            }
        ],
        description="Prometheus' pods, as in a NetworkPolicy's `from`; empty: nothing scrapes "
        "workers.",
    )
    restrictEgress: bool = Field(
        False,
        description="Restrict outgoing connections too: to DNS, to workers and by `egress`.",
    )
    egress: list[dict[str, Any]] = Field(
        [],
        description="Additional egress rules of both components, as in a NetworkPolicy: for remote "
        "workers, the trace collector, model downloads.",
    )


class Tracing(Values):
    """OpenTelemetry spans of gateway and engine, one trace per request."""

    endpoint: Annotated[str, Field(pattern=r"^(https?://.+)?$")] = Field(
        "",
        description="URL of a collector for OTLP over HTTP (`.../v1/traces`); empty: off.",
    )
