"""*Latency*: how long clients wait, for the first token and between tokens, and where."""

from grafana_foundation_sdk.builders import dashboard, heatmap, stat, timeseries

from monitoring.dashboards.frame import new_dashboard
from monitoring.dashboards.panels import heat, layers, lines, number, worse_above
from monitoring.dashboards.query import Query, mean, quantiles
from monitoring.rules import OBJECTIVES

_TTFT = "gateway_time_to_first_token_seconds"
_GAPS = "gateway_inter_token_seconds"
_BURN_WINDOW = "1h"


def latency_dashboard() -> dashboard.Dashboard:
    """The dashboard."""
    return (
        new_dashboard(
            "Latency",
            "specgate-latency",
            "How long clients wait for the first token and for each token after it, what pacing "
            "adds to what the worker sends, where requests queue, and whether promises are kept.",
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
        .with_row(dashboard.Row("Tokens: as the worker sends them, and as clients get them"))
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
        .with_row(dashboard.Row("Promises"))
        .with_panel(_burn())
    )


def _ttft_now(title: str, quantile: float) -> stat.Panel:
    buckets = f"sum by (le) (rate({_TTFT}_bucket{{@model}}[$window]))"
    return (
        number(Query(f"histogram_quantile({quantile:g}, {buckets})"))
        .title(title)
        .description("From a streaming request's arrival to its first text at the client.")
        .unit("s")
        .thresholds(worse_above(1, 2))
    )


def _gap_now(title: str, quantile: float) -> stat.Panel:
    buckets = f'sum by (le) (rate({_GAPS}_bucket{{@gateway, stage="client"}}[$window]))'
    return (
        number(Query(f"histogram_quantile({quantile:g}, {buckets})"))
        .title(title)
        .description("Between two tokens as they were handed to the client.")
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
    series = " or ".join(_burn_of(place) for place in range(len(OBJECTIVES)))
    return (
        number(Query(f"max({series})"))
        .title("Fastest burn of a budget")
        .description("At 1, what may be missed of a promise is used up just in time. See below.")
        .decimals(2)
        .thresholds(worse_above(1, 6))
    )


def _burn_of(place: int) -> str:
    """The recorded burn rate of an objective, told apart from others by a label of its own."""
    objective = OBJECTIVES[place]
    recorded = f"{objective.burn(_BURN_WINDOW)}{{@gateway}}"
    return f'label_replace(max({recorded}), "promise", "{objective.name}", "", "")'


def _ttft() -> timeseries.Panel:
    return (
        lines(*quantiles(f"{_TTFT}_bucket{{@model}}", by="model", legend="{{model}}"))
        .title("Time to first token")
        .description("Queue, worker and the first piece that pacing releases, all together.")
        .unit("s")
    )


def _ttft_heat() -> heatmap.Panel:
    return (
        heat(Query(f"sum by (le) (increase({_TTFT}_bucket{{@model}}[$window]))", "{{le}}"))
        .title("Time to first token of requests")
        .description("Two bands: cached prompts and others, or requests that queued.")
    )


def _gaps() -> timeseries.Panel:
    return (
        lines(*quantiles(f"{_GAPS}_bucket{{@gateway}}", by="stage", legend="{{stage}}"))
        .title("Time between tokens, raw and paced")
        .description(
            "worker: as they came; drafts make tokens come in bursts, so the median is near 0. "
            "client: as they were handed on."
        )
        .unit("s")
    )


def _gaps_heat() -> heatmap.Panel:
    buckets = f'increase({_GAPS}_bucket{{@gateway, stage="client"}}[$window])'
    return (
        heat(Query(f"sum by (le) ({buckets})", "{{le}}"))
        .title("Time between tokens at clients")
        .description("How many tokens came after which gap.")
    )


def _pacing_added() -> timeseries.Panel:
    return (
        lines(
            *quantiles(
                "gateway_pacing_added_seconds_bucket{@gateway}", by="mode", legend="{{mode}}"
            )
        )
        .title("Delay that pacing adds to a token")
        .description("Bounded by gateway.pacing.max_delay_ms where streams are smoothed.")
        .unit("s")
    )


def _pacing_held() -> timeseries.Panel:
    return (
        lines(*quantiles("gateway_pacing_held_tokens_bucket{@gateway}", by="", legend=""))
        .title("Tokens held as a piece leaves")
        .description("What smoothing has in stock for a stream, against the worker's next pause.")
    )


def _streams() -> timeseries.Panel:
    return (
        layers(
            Query("sum by (mode) (rate(gateway_pacing_streams_total{@gateway}[$window]))",
                  "{{mode}}")
        )
        .title("Streams that begin, by pacing")
        .description("Streams a second.")
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
        .title("Time of a whole request")
        .description("From its first byte to the true end of its answer.")
        .unit("s")
    )


def _queue() -> timeseries.Panel:
    return (
        lines(
            Query("sum(gateway_inflight_requests{@gateway})", "hold a slot"),
            Query("sum(gateway_queue_depth{@gateway})", "wait for one"),
        )
        .title("Requests in the gateway")
        .description("Nobody waits here while fewer than max_running_requests run.")
    )


def _worker_queue() -> timeseries.Panel:
    return (
        lines(
            Query("sum by (instance) (vllm:num_requests_running{@worker})", "{{instance}} running"),
            Query("sum by (instance) (vllm:num_requests_waiting{@worker})", "{{instance}} waiting"),
        )
        .title("Requests in the workers")
        .description("Many that wait: too little KV cache, or max_num_seqs is reached.")
    )


def _worker_queue_time() -> timeseries.Panel:
    return (
        lines(
            *quantiles(
                "vllm:request_queue_time_seconds_bucket{@worker}", by="", legend="in its queue"
            ),
            *quantiles(
                "vllm:request_prefill_time_seconds_bucket{@worker}", by="", legend="reading"
            ),
        )
        .title("Before a worker's first token")
        .description("Waiting in its queue, and reading the prompt.")
        .unit("s")
    )


def _worker_phases() -> timeseries.Panel:
    return (
        lines(Query(mean("vllm:request_decode_time_seconds", "@worker", by="instance"),
                    "{{instance}} writing"),
              Query(mean("vllm:request_inference_time_seconds", "@worker", by="instance"),
                    "{{instance}} all"))
        .title("A worker's time for a request, mean")
        .description("All of it, and the part after the first token.")
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
        .title("How fast budgets burn")
        .description(
            "Over the last hour. 1: what may be missed within 30 days is used up just then; above "
            "14.4 somebody is woken."
        )
        .span(24)
        .thresholds(worse_above(1, 14.4))
    )
