"""The dashboard *Fleet*: state, load, memory and failures of the workers."""

from grafana_foundation_sdk.builders import dashboard

from monitoring.dashboards.frame import new_dashboard
from monitoring.dashboards.panels import (
    layers,
    lines,
    number,
    states,
    worse_above,
    worse_below,
)
from monitoring.dashboards.query import Query, happened, per_second

_REQUESTS = "rate(gateway_requests_total{@model}[$window])"
_FAILED = 'rate(gateway_requests_total{@model, outcome=~"upstream_error|internal_error"}[$window])'
_CACHED = "rate(vllm:prefix_cache_hits_total{@worker}[$window])"
_PROMPTS = "rate(vllm:prefix_cache_queries_total{@worker}[$window])"


def fleet_dashboard() -> dashboard.Dashboard:
    """Return the dashboard."""
    return new_dashboard(
        "Fleet",
        "Which workers are up; their traffic, restarts, KV cache and suffix index; all kinds "
        "of failures.",
        {
            "Now": [
                number(
                    "Workers up",
                    "Share of the workers that pass their health checks; 0 if none is found.",
                    Query("avg(gateway_worker_up{@gateway}) or 0 * max(gateway_workers{@gateway})"),
                    unit="percentunit",
                ).thresholds(worse_below(0.5, 1)),
                number(
                    "Restarts in an hour",
                    "Restarts of supervised workers.",
                    Query("sum(increase(gateway_worker_restarts_total{@gateway}[1h]))"),
                )
                .decimals(0)
                .thresholds(worse_above(1, 3)),
                number(
                    "Requests",
                    "Completed requests per second, whatever their outcome.",
                    Query(f"sum({_REQUESTS})"),
                    unit="reqps",
                ),
                number(
                    "Failed requests",
                    "Share of requests that failed because of a worker or the gateway.",
                    Query(f"(sum({_FAILED}) or vector(0)) / sum({_REQUESTS})"),
                    unit="percentunit",
                ).thresholds(worse_above(0.001, 0.01)),
                number(
                    "Generated tokens",
                    "Per second, over all workers.",
                    Query('sum(rate(gateway_tokens_total{@model, kind="completion"}[$window]))'),
                    unit="tok/s",
                ),
                number(
                    "Fullest KV cache",
                    "Of all workers. When it is full, requests wait or are preempted.",
                    Query("max(vllm:kv_cache_usage_perc{@worker})"),
                    unit="percentunit",
                ).thresholds(worse_above(0.8, 0.95)),
            ],
            "Traffic": [
                layers(
                    "Requests by outcome",
                    "Completed requests per second.",
                    Query(f"sum by (outcome) ({_REQUESTS})", "{{outcome}}"),
                    unit="reqps",
                ),
                lines(
                    "Tokens",
                    "Per second. cached: prompt tokens found in the prefix cache.",
                    per_second("gateway_tokens_total{@model}", by="kind"),
                    unit="tok/s",
                ),
                layers(
                    "Streams by outcome",
                    "Per second. error_event: ended by the gateway; see its access log.",
                    per_second("gateway_stream_terminations_total{@gateway}", by="outcome"),
                    unit="reqps",
                ),
                layers(
                    "Requests that the gateway rejected",
                    "Per second, by reason. queue_full and queue_timeout: too few workers.",
                    per_second("gateway_rejections_total{@gateway}", by="reason"),
                    unit="reqps",
                ),
            ],
            "Workers": [
                states(
                    "Workers",
                    "By their health checks.",
                    Query("min by (worker) (gateway_worker_up{@gateway})", "{{worker}}"),
                    off="down",
                    on="up",
                ),
                layers(
                    "Restarts",
                    "Of supervised workers, within the window. The log has the last output.",
                    Query(
                        "sum by (worker, reason) "
                        "(increase(gateway_worker_restarts_total{@gateway}[$window]))",
                        "{{worker}} {{reason}}",
                    ),
                ),
                layers(
                    "Requests that failed on a worker",
                    "Within the window; most of them succeeded when they were retried.",
                    Query(
                        "sum by (worker, reason) "
                        + happened("gateway_upstream_failures_total{@gateway}"),
                        "{{worker}} {{reason}}",
                    ),
                ),
                lines(
                    "Steps of the workers",
                    "Per second. A worker at 0 that has requests is stuck.",
                    per_second("vllm:iteration_tokens_total_count{@worker}", by="instance"),
                    unit="ops",
                ),
                layers(
                    "Requests by the workers' finish reason",
                    "Per second. abort: cancelled by the client or the gateway.",
                    per_second("vllm:request_success_total{@worker}", by="finished_reason"),
                    unit="reqps",
                ),
                layers(
                    "Failed speculation",
                    "Steps or requests within the window that were decoded without speculation "
                    "because of an error.",
                    Query(
                        "sum by (reason) " + happened("engine_spec_fallbacks_total{@worker}"),
                        "{{reason}}",
                    ),
                ),
            ],
            "Memory": [
                lines(
                    "KV cache",
                    "Share in use, and requests that were preempted.",
                    Query(
                        "max by (instance) (vllm:kv_cache_usage_perc{@worker})",
                        "{{instance}} in use",
                    ),
                    per_second(
                        "vllm:num_preemptions_total{@worker}",
                        by="instance",
                        legend="{{instance}} preemptions per second",
                    ),
                    unit="percentunit",
                ),
                lines(
                    "Prompts from the prefix cache",
                    "Share of the prompt tokens that were cached.",
                    Query(
                        f"sum by (instance) ({_CACHED}) / sum by (instance) ({_PROMPTS})",
                        "{{instance}}",
                    ),
                    unit="percentunit",
                ).max(1),
                lines(
                    "Memory of the suffix index",
                    "At its limit it evicts the oldest answers.",
                    Query(
                        "sum by (instance) (engine_suffix_bytes{@worker})", "{{instance}} in use"
                    ),
                    Query(
                        "sum by (instance) (engine_suffix_capacity_bytes{@worker})",
                        "{{instance}} limit",
                    ),
                    unit="bytes",
                ),
                lines(
                    "Tokens in the suffix index",
                    "Tokens of finished answers.",
                    Query(
                        "sum by (instance) (engine_suffix_tokens{@worker})", "{{instance}} stored"
                    ),
                    per_second(
                        "engine_suffix_evictions_total{@worker}",
                        by="instance",
                        legend="{{instance}} evicted per second",
                    ),
                ),
            ],
        },
    )
