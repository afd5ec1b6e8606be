"""The dashboard *Fleet*: state, load, memory and failures of the workers."""

from grafana_foundation_sdk.builders import dashboard, stat, timeseries
from grafana_foundation_sdk.builders.statetimeline import Panel as StatesPanel

from monitoring.dashboards.frame import new_dashboard
from monitoring.dashboards.panels import (
    layers,
    lines,
    number,
    states,
    worse_above,
    worse_below,
)
from monitoring.dashboards.query import Query, happened

_REQUESTS = "rate(gateway_requests_total{@model}[$window])"
_FAILED = 'rate(gateway_requests_total{@model, outcome=~"upstream_error|internal_error"}[$window])'


def fleet_dashboard() -> dashboard.Dashboard:
    """The dashboard."""
    return (
        new_dashboard(
            "Fleet",
            "specgate-fleet",
            "Which workers are up; their traffic, restarts, KV cache and suffix index; all kinds "
            "of failures.",
        )
        .with_row(dashboard.Row("Now"))
        .with_panel(_workers_up())
        .with_panel(_restarts_now())
        .with_panel(_requests_now())
        .with_panel(_failed_now())
        .with_panel(_tokens_now())
        .with_panel(_kv_now())
        .with_row(dashboard.Row("Traffic"))
        .with_panel(_requests())
        .with_panel(_tokens())
        .with_panel(_streams())
        .with_panel(_rejections())
        .with_row(dashboard.Row("Workers"))
        .with_panel(_up())
        .with_panel(_restarts())
        .with_panel(_failures())
        .with_panel(_steps())
        .with_panel(_finished())
        .with_panel(_fallbacks())
        .with_row(dashboard.Row("Memory"))
        .with_panel(_kv())
        .with_panel(_prefix_cache())
        .with_panel(_suffix_memory())
        .with_panel(_suffix_tokens())
    )


def _workers_up() -> stat.Panel:
    return (
        number(Query("avg(gateway_worker_up{@gateway}) or 0 * max(gateway_workers{@gateway})"))
        .title("Workers up")
        .description("Share of the workers that pass their health checks; 0 if none is found.")
        .unit("percentunit")
        .thresholds(worse_below(0.5, 1))
    )


def _restarts_now() -> stat.Panel:
    return (
        number(Query("sum(increase(gateway_worker_restarts_total{@gateway}[1h]))"))
        .title("Restarts in an hour")
        .description("Restarts of supervised workers.")
        .decimals(0)
        .thresholds(worse_above(1, 3))
    )


def _requests_now() -> stat.Panel:
    return (
        number(Query(f"sum({_REQUESTS})"))
        .title("Requests")
        .description("Completed requests per second, whatever their outcome.")
        .unit("reqps")
    )


def _failed_now() -> stat.Panel:
    return (
        number(Query(f"(sum({_FAILED}) or vector(0)) / sum({_REQUESTS})"))
        .title("Failed requests")
        .description("Share of requests that failed because of a worker or the gateway.")
        .unit("percentunit")
        .thresholds(worse_above(0.001, 0.01))
    )


def _tokens_now() -> stat.Panel:
    return (
        number(Query('sum(rate(gateway_tokens_total{@model, kind="completion"}[$window]))'))
        .title("Generated tokens")
        .description("Per second, over all workers.")
        .unit("tok/s")
    )


def _kv_now() -> stat.Panel:
    return (
        number(Query("max(vllm:kv_cache_usage_perc{@worker})"))
        .title("Fullest KV cache")
        .description("Of all workers. When it is full, requests wait or are preempted.")
        .unit("percentunit")
        .thresholds(worse_above(0.8, 0.95))
    )


def _requests() -> timeseries.Panel:
    return (
        layers(Query(f"sum by (outcome) ({_REQUESTS})", "{{outcome}}"))
        .title("Requests by outcome")
        .description("Completed requests per second.")
        .unit("reqps")
    )


def _tokens() -> timeseries.Panel:
    return (
        lines(Query("sum by (kind) (rate(gateway_tokens_total{@model}[$window]))", "{{kind}}"))
        .title("Tokens")
        .description("Per second. cached: prompt tokens found in the prefix cache.")
        .unit("tok/s")
    )


def _streams() -> timeseries.Panel:
    return (
        layers(
            Query(
                "sum by (outcome) (rate(gateway_stream_terminations_total{@gateway}[$window]))",
                "{{outcome}}",
            )
        )
        .title("Streams by outcome")
        .description("Per second. error_event: ended by the gateway; see its access log.")
        .unit("reqps")
    )


def _rejections() -> timeseries.Panel:
    return (
        layers(
            Query(
                "sum by (reason) (rate(gateway_rejections_total{@gateway}[$window]))", "{{reason}}"
            )
        )
        .title("Requests that the gateway rejected")
        .description("Per second, by reason. queue_full and queue_timeout: too few workers.")
        .unit("reqps")
    )


def _up() -> StatesPanel:
    return (
        states(Query("min by (worker) (gateway_worker_up{@gateway})", "{{worker}}"),
               off="down", on="up")
        .title("Workers")
        .description("By their health checks.")
    )  # fmt: skip


def _restarts() -> timeseries.Panel:
    return (
        layers(
            Query(
                "sum by (worker, reason) "
                "(increase(gateway_worker_restarts_total{@gateway}[$window]))",
                "{{worker}} {{reason}}",
            )
        )
        .title("Restarts")
        .description("Of supervised workers, within the window. The log has the last output.")
    )


def _failures() -> timeseries.Panel:
    return (
        layers(
            Query(
                "sum by (worker, reason) " + happened("gateway_upstream_failures_total{@gateway}"),
                "{{worker}} {{reason}}",
            )
        )
        .title("Requests that failed on a worker")
        .description("Within the window; most of them succeeded when they were retried.")
    )


def _steps() -> timeseries.Panel:
    return (
        lines(
            Query(
                "sum by (instance) (rate(vllm:iteration_tokens_total_count{@worker}[$window]))",
                "{{instance}}",
            )
        )
        .title("Steps of the workers")
        .description("Per second. A worker at 0 that has requests is stuck.")
        .unit("ops")
    )


def _finished() -> timeseries.Panel:
    return (
        layers(
            Query(
                "sum by (finished_reason) (rate(vllm:request_success_total{@worker}[$window]))",
                "{{finished_reason}}",
            )
        )
        .title("Requests by the workers' finish reason")
        .description("Per second. abort: cancelled by the client or the gateway.")
        .unit("reqps")
    )


def _fallbacks() -> timeseries.Panel:
    return (
        layers(
            Query(
                "sum by (reason) " + happened("engine_spec_fallbacks_total{@worker}"),
                "{{reason}}",
            )
        )
        .title("Failed speculation")
        .description(
            "Steps or requests within the window that were decoded without speculation because of "
            "an error."
        )
    )


def _kv() -> timeseries.Panel:
    return (
        lines(
            Query("max by (instance) (vllm:kv_cache_usage_perc{@worker})", "{{instance}} in use"),
            Query(
                "sum by (instance) (rate(vllm:num_preemptions_total{@worker}[$window]))",
                "{{instance}} preemptions per second",
            ),
        )
        .title("KV cache")
        .description("Share in use, and requests that were preempted.")
        .unit("percentunit")
    )


def _prefix_cache() -> timeseries.Panel:
    return (
        lines(
            Query(
                "sum by (instance) (rate(vllm:prefix_cache_hits_total{@worker}[$window]))"
                " / sum by (instance) (rate(vllm:prefix_cache_queries_total{@worker}[$window]))",
                "{{instance}}",
            )
        )
        .title("Prompts from the prefix cache")
        .description("Share of the prompt tokens that were cached.")
        .unit("percentunit")
        .max(1)
    )


def _suffix_memory() -> timeseries.Panel:
    return (
        lines(
            Query("sum by (instance) (engine_suffix_bytes{@worker})", "{{instance}} in use"),
            Query(
                "sum by (instance) (engine_suffix_capacity_bytes{@worker})", "{{instance}} limit"
            ),
        )
        .title("Memory of the suffix index")
        .description("At its limit it evicts the oldest answers.")
        .unit("bytes")
    )


def _suffix_tokens() -> timeseries.Panel:
    return (
        lines(
            Query("sum by (instance) (engine_suffix_tokens{@worker})", "{{instance}} stored"),
            Query(
                "sum by (instance) (rate(engine_suffix_evictions_total{@worker}[$window]))",
                "{{instance}} evicted per second",
            ),
        )
        .title("Tokens in the suffix index")
        .description("Tokens of finished answers.")
    )
