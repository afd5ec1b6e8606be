"""The dashboard *Latency*: how long clients wait for the first token and between tokens."""

from grafana_foundation_sdk.builders import dashboard, heatmap, stat, timeseries

from monitoring.dashboards.frame import new_dashboard
from monitoring.dashboards.panels import heat, layers, lines, number, worse_above
from monitoring.dashboards.query import Query, mean, quantiles
from monitoring.rules import OBJECTIVES, Objective

_TTFT = "gateway_time_to_first_token_seconds"
_GAPS = "gateway_inter_token_seconds"
_BURN_WINDOW = "1h"


def latency_dashboard() -> dashboard.Dashboard:
    """The dashboard."""
    return (
        new_dashboard(
            "Latency",
            "specgate-latency",
            "How long clients wait for the first token and between tokens, the delay that pacing "
            "adds, where requests queue, and whether service level objectives are met.",
        )
        .with_row(dashboard.Row("Now"))
        .with_panel(_ttft_now("Median first token", 0.5))
        .with_panel(_ttft_now("99 % of first tokens", 0.99))
        .with_panel(_gap_now("Median token", 0.5))
        .with_panel(_gap_now("99 % of tokens", 0.99))
        .with_panel(_queued_now())
        .with_panel(_burn_now())
        .with_row(dashboard.Row("First token"))
        .with_panel(_ttft())
        .with_panel(_ttft_heat())
        .with_row(dashboard.Row("Tokens: raw from the worker, and paced"))
        .with_panel(_gaps())
        .with_panel(_gaps_heat())
        .with_panel(_pacing_added())
        .with_panel(_pacing_held())
        .with_panel(_streams())
        .with_panel(_durations())
        .with_row(dashboard.Row("Queue and worker"))
        .with_panel(_queue())
        .with_panel(_worker_queue())
        .with_panel(_worker_queue_time())
        .with_panel(_worker_phases())
        .with_row(dashboard.Row("Service level objectives"))
        .with_panel(_burn())
    )


def _ttft_now(title: str, quantile: float) -> stat.Panel:
    buckets = f"sum by (le) (rate({_TTFT}_bucket{{@model}}[$window]))"
    return (
        number(Query(f"histogram_quantile({quantile:g}, {buckets})"))
        .title(title)
        .description("From the arrival of a streaming request until its first text is sent.")
        .unit("s")
        .thresholds(worse_above(1, 2))
    )


def _gap_now(title: str, quantile: float) -> stat.Panel:
    buckets = f'sum by (le) (rate({_GAPS}_bucket{{@gateway, stage="client"}}[$window]))'
    return (
        number(Query(f"histogram_quantile({quantile:g}, {buckets})"))
        .title(title)
        .description("Time between two tokens as they are sent to the client.")
        .unit("s")
        .thresholds(worse_above(0.05, 0.1))
    )


def _queued_now() -> stat.Panel:
    return (
        number(Query("sum(gateway_queue_depth{@gateway})"))
        .title("Waiting for a slot")
        .description("Requests in the gateway's queue.")
        .thresholds(worse_above(1, 10))
    )


def _burn_now() -> stat.Panel:
    series = " or ".join(_burn_of(objective) for objective in OBJECTIVES)
    return (
        number(Query(f"max({series})"))
        .title("Highest burn rate")
        .description("At 1, an error budget lasts exactly 30 days. See the last row.")
        .decimals(2)
        .thresholds(worse_above(1, 6))
    )


def _burn_of(objective: Objective) -> str:
    """PromQL for the recorded burn rate; a label distinguishes it from those of others."""
    recorded = f"{objective.burn(_BURN_WINDOW)}{{@gateway}}"
    return f'label_replace(max({recorded}), "objective", "{objective.name}", "", "")'


def _ttft() -> timeseries.Panel:
    return (
        lines(*quantiles(f"{_TTFT}_bucket{{@model}}", by="model", legend="{{model}}"))
        .title("Time to first token")
        .description("Includes the queue, the worker and pacing.")
        .unit("s")
    )


def _ttft_heat() -> heatmap.Panel:
    return (
        heat(Query(f"sum by (le) (increase({_TTFT}_bucket{{@model}}[$window]))", "{{le}}"))
        .title("Time to first token of requests")
        .description("Two bands: cached and other prompts, or requests that had to wait.")
    )


def _gaps() -> timeseries.Panel:
    return (
        lines(*quantiles(f"{_GAPS}_bucket{{@gateway}}", by="stage", legend="{{stage}}"))
        .title("Time between tokens, raw and paced")
        .description(
            "worker: as received; drafts produce bursts of tokens, so the median is near 0. "
            "client: as sent."
        )
        .unit("s")
    )


def _gaps_heat() -> heatmap.Panel:
    buckets = f'increase({_GAPS}_bucket{{@gateway, stage="client"}}[$window])'
    return (
        heat(Query(f"sum by (le) ({buckets})", "{{le}}"))
        .title("Time between tokens at clients")
        .description("Number of tokens by the gap before them.")
    )


def _pacing_added() -> timeseries.Panel:
    return (
        lines(
            *quantiles(
                "gateway_pacing_added_seconds_bucket{@gateway}", by="mode", legend="{{mode}}"
            )
        )
        .title("Delay that pacing adds to a token")
        .description("At most gateway.pacing.max_delay_ms where streams are smoothed.")
        .unit("s")
    )


def _pacing_held() -> timeseries.Panel:
    return (
        lines(*quantiles("gateway_pacing_held_tokens_bucket{@gateway}", by="", legend=""))
        .title("Tokens buffered by pacing")
        .description("Tokens of a stream that wait while another one is sent.")
    )


def _streams() -> timeseries.Panel:
    return (
        layers(
            Query("sum by (mode) (rate(gateway_pacing_streams_total{@gateway}[$window]))",
                  "{{mode}}")
        )
        .title("Started streams by pacing mode")
        .description("Streams per second.")
        .unit("reqps")
    )  # fmt: skip


def _durations() -> timeseries.Panel:
    return (
        lines(
            *quantiles(
                "gateway_request_duration_seconds_bucket{@model}",
                by="endpoint",
                legend="{{endpoint}}",
            )
        )
        .title("Duration of a request")
        .description("From its first byte to the end of its response.")
        .unit("s")
    )


def _queue() -> timeseries.Panel:
    return (
        lines(
            Query("sum(gateway_inflight_requests{@gateway})", "running"),
            Query("sum(gateway_queue_depth{@gateway})", "waiting"),
        )
        .title("Requests in the gateway")
        .description("Requests wait only when max_running_requests are running.")
    )


def _worker_queue() -> timeseries.Panel:
    return (
        lines(
            Query("sum by (instance) (vllm:num_requests_running{@worker})", "{{instance}} running"),
            Query("sum by (instance) (vllm:num_requests_waiting{@worker})", "{{instance}} waiting"),
        )
        .title("Requests in the workers")
        .description("Many waiting: too little KV cache, or max_num_seqs is reached.")
    )


def _worker_queue_time() -> timeseries.Panel:
    return (
        lines(
            *quantiles("vllm:request_queue_time_seconds_bucket{@worker}", by="", legend="queue"),
            *quantiles(
                "vllm:request_prefill_time_seconds_bucket{@worker}", by="", legend="prefill"
            ),
        )
        .title("Time before a worker's first token")
        .description("Time in the worker's queue, and prefill.")
        .unit("s")
    )


def _worker_phases() -> timeseries.Panel:
    return (
        lines(Query(mean("vllm:request_decode_time_seconds", "@worker", by="instance"),
                    "{{instance}} decode"),
              Query(mean("vllm:request_inference_time_seconds", "@worker", by="instance"),
                    "{{instance}} total"))
        .title("A worker's time per request, mean")
        .description("Total, and the part after the first token.")
        .unit("s")
    )  # fmt: skip


def _burn() -> timeseries.Panel:
    return (
        lines(
            *(
                Query(
                    f"{objective.burn(_BURN_WINDOW)}{{@gateway}}",
                    objective.title + (" {{model}}" if "model" in objective.labels else ""),
                )
                for objective in OBJECTIVES
            )
        )
        .title("Burn rates of error budgets")
        .description(
            "Over the last hour. At 1 a budget lasts exactly 30 days; above 14.4 a critical alert "
            "fires."
        )
        .span(24)
        .thresholds(worse_above(1, 14.4))
    )
