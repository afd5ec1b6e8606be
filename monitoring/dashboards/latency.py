"""The dashboard *Latency*: how long clients wait for the first token and between tokens."""

from grafana_foundation_sdk.builders import dashboard, heatmap, stat

from monitoring.dashboards.frame import new_dashboard
from monitoring.dashboards.panels import heat, layers, lines, number, worse_above
from monitoring.dashboards.query import Query, mean, per_second, quantiles
from monitoring.rules import OBJECTIVES, Objective

_TTFT = "gateway_time_to_first_token_seconds"
_GAPS = "gateway_inter_token_seconds"
_BURN_WINDOW = "1h"


def latency_dashboard() -> dashboard.Dashboard:
    """Return the dashboard."""
    return new_dashboard(
        "Latency",
        "How long clients wait for the first token and between tokens, the delay that pacing "
        "adds, where requests queue, and whether service level objectives are met.",
        {
            "Now": [
                _ttft_now("Median first token", 0.5),
                _ttft_now("99 % of first tokens", 0.99),
                _gap_now("Median token", 0.5),
                _gap_now("99 % of tokens", 0.99),
                number(
                    "Waiting for a slot",
                    "Requests in the gateway's queue.",
                    Query("sum(gateway_queue_depth{@gateway})"),
                ).thresholds(worse_above(1, 10)),
                _burn_now(),
            ],
            "First token": [
                lines(
                    "Time to first token",
                    "Includes the queue, the worker and pacing.",
                    *quantiles(f"{_TTFT}_bucket{{@model}}", by="model", legend="{{model}}"),
                    unit="s",
                ),
                heat(
                    "Time to first token of requests",
                    "Two bands: cached and other prompts, or requests that had to wait.",
                    Query(f"sum by (le) (increase({_TTFT}_bucket{{@model}}[$window]))", "{{le}}"),
                ),
            ],
            "Tokens: raw from the worker, and paced": [
                lines(
                    "Time between tokens, raw and paced",
                    "worker: as received; drafts produce bursts of tokens, so the median is near "
                    "0. client: as sent.",
                    *quantiles(f"{_GAPS}_bucket{{@gateway}}", by="stage", legend="{{stage}}"),
                    unit="s",
                ),
                _gaps_heat(),
                lines(
                    "Delay that pacing adds to a token",
                    "At most gateway.pacing.max_delay_ms where streams are smoothed.",
                    *quantiles(
                        "gateway_pacing_added_seconds_bucket{@gateway}",
                        by="mode",
                        legend="{{mode}}",
                    ),
                    unit="s",
                ),
                lines(
                    "Tokens buffered by pacing",
                    "Tokens of a stream that wait while another one is sent.",
                    *quantiles("gateway_pacing_held_tokens_bucket{@gateway}", by="", legend=""),
                ),
                layers(
                    "Started streams by pacing mode",
                    "Streams per second.",
                    per_second("gateway_pacing_streams_total{@gateway}", by="mode"),
                    unit="reqps",
                ),
                lines(
                    "Duration of a request",
                    "From its first byte to the end of its response.",
                    *quantiles(
                        "gateway_request_duration_seconds_bucket{@model}",
                        by="endpoint",
                        legend="{{endpoint}}",
                    ),
                    unit="s",
                ),
            ],
            "Queue and worker": [
                lines(
                    "Requests in the gateway",
                    "Requests wait only when max_running_requests are running.",
                    Query("sum(gateway_inflight_requests{@gateway})", "running"),
                    Query("sum(gateway_queue_depth{@gateway})", "waiting"),
                ),
                lines(
                    "Requests in the workers",
                    "Many waiting: too little KV cache, or max_num_seqs is reached.",
                    Query(
                        "sum by (instance) (vllm:num_requests_running{@worker})",
                        "{{instance}} running",
                    ),
                    Query(
                        "sum by (instance) (vllm:num_requests_waiting{@worker})",
                        "{{instance}} waiting",
                    ),
                ),
                lines(
                    "Time before a worker's first token",
                    "Time in the worker's queue, and prefill.",
                    *quantiles(
                        "vllm:request_queue_time_seconds_bucket{@worker}", by="", legend="queue"
                    ),
                    *quantiles(
                        "vllm:request_prefill_time_seconds_bucket{@worker}", by="", legend="prefill"
                    ),
                    unit="s",
                ),
                lines(
                    "A worker's time per request, mean",
                    "Total, and the part after the first token.",
                    Query(
                        mean("vllm:request_decode_time_seconds", "@worker", by="instance"),
                        "{{instance}} decode",
                    ),
                    Query(
                        mean("vllm:request_inference_time_seconds", "@worker", by="instance"),
                        "{{instance}} total",
                    ),
                    unit="s",
                ),
            ],
            "Service level objectives": [
                lines(
                    "Burn rates of error budgets",
                    "Over the last hour. At 1 a budget lasts exactly 30 days; above 14.4 a "
                    "critical alert fires.",
                    *(
                        Query(
                            f"{objective.burn(_BURN_WINDOW)}{{@gateway}}",
                            objective.title + (" {{model}}" if "model" in objective.labels else ""),
                        )
                        for objective in OBJECTIVES
                    ),
                )
                .span(24)
                .thresholds(worse_above(1, 14.4)),
            ],
        },
    )


def _ttft_now(title: str, quantile: float) -> stat.Panel:
    description = "From the arrival of a streaming request until its first text is sent."
    query = _quantile(quantile, f"{_TTFT}_bucket{{@model}}")
    return number(title, description, query, unit="s").thresholds(worse_above(1, 2))


def _gap_now(title: str, quantile: float) -> stat.Panel:
    description = "Time between two tokens as they are sent to the client."
    query = _quantile(quantile, f'{_GAPS}_bucket{{@gateway, stage="client"}}')
    return number(title, description, query, unit="s").thresholds(worse_above(0.05, 0.1))


def _quantile(quantile: float, buckets: str) -> Query:
    return Query(f"histogram_quantile({quantile:g}, sum by (le) (rate({buckets}[$window])))")


def _burn_now() -> stat.Panel:
    series = " or ".join(_burn_of(objective) for objective in OBJECTIVES)
    return (
        number(
            "Highest burn rate",
            "At 1, an error budget lasts exactly 30 days. See the last row.",
            Query(f"max({series})"),
        )
        .decimals(2)
        .thresholds(worse_above(1, 6))
    )


def _gaps_heat() -> heatmap.Panel:
    buckets = f'increase({_GAPS}_bucket{{@gateway, stage="client"}}[$window])'
    return heat(
        "Time between tokens at clients",
        "Number of tokens by the gap before them.",
        Query(f"sum by (le) ({buckets})", "{{le}}"),
    )


def _burn_of(objective: Objective) -> str:
    """PromQL for the recorded burn rate; a label distinguishes it from those of others."""
    recorded = f"{objective.burn(_BURN_WINDOW)}{{@gateway}}"
    return f'label_replace(max({recorded}), "objective", "{objective.name}", "", "")'
