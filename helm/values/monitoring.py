"""Values of what Prometheus and Grafana read, and of who may reach whom."""

from typing import Annotated, Any

from pydantic import Field

from helm.values.kubernetes import Labels, Values
from monitoring.rules import RUNBOOK, Thresholds

Duration = Annotated[str, Field(pattern=r"^([0-9]+(ms|s|m|h))+$")]


class Scraping(Values):
    """A ServiceMonitor for the gateway and a PodMonitor for the engine (Prometheus operator)."""

    enabled: bool = Field(False, description="Create both.")
    interval: Duration = Field("15s", description="Between two looks.")
    labels: Labels = Field({}, description="Labels by which your Prometheus finds them.")


class Rules(Values):
    """Alerts and recording rules (`files/rules/` of the chart) as PrometheusRules."""

    enabled: bool = Field(False, description="Create them.")
    labels: Labels = Field({}, description="Labels by which your Prometheus finds them.")
    runbookUrl: Annotated[str, Field(pattern=r"^[^\s'\"#]+$")] = Field(
        RUNBOOK,
        description="URL under which you publish docs/runbook.md: an alert's `runbook_url` is this "
        "and `#`, the entry's heading.",
    )
    thresholds: Thresholds = Field(
        Thresholds(), description="What is too much for an alert, and what is promised."
    )


class Dashboards(Values):
    """Grafana dashboards (`dashboards/` of the chart) as ConfigMaps for Grafana's sidecar."""

    enabled: bool = Field(False, description="Create them.")
    labels: Labels = Field(
        {"grafana_dashboard": "1"}, description="Labels by which the sidecar finds them."
    )
    annotations: Labels = Field({}, description="Annotations, such as the folder.")


class Monitoring(Values):
    """What shows how it runs."""

    scraping: Scraping = Field(Scraping(), description="Who scrapes what.")
    rules: Rules = Field(Rules(), description="Alerts.")
    dashboards: Dashboards = Field(Dashboards(), description="Dashboards.")


class NetworkPolicy(Values):
    """NetworkPolicies; the cluster's network must enforce them."""

    enabled: bool = Field(
        True, description="Workers take connections from the gateway and Prometheus only."
    )
    prometheus: list[dict[str, Any]] = Field(
        [
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
                "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
            }
        ],
        description="Prometheus' pods, Kubernetes' own terms; empty: none may scrape workers.",
    )
    restrictEgress: bool = Field(
        False,
        description="Bound what pods connect to as well: DNS, each other, and `egress`.",
    )
    egress: list[dict[str, Any]] = Field(
        [],
        description="More rules for both components, Kubernetes' own terms: remote workers, the "
        "collector of traces, where models come from.",
    )


class Tracing(Values):
    """OpenTelemetry spans of gateway and engine, in one trace a request."""

    endpoint: Annotated[str, Field(pattern=r"^(https?://.+)?$")] = Field(
        "",
        description="URL of a collector that takes OTLP over HTTP (`.../v1/traces`); empty: off.",
    )
