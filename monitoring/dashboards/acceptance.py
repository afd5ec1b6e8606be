"""The dashboard *Acceptance*: how much speculation saves, by source, and what it costs."""

from grafana_foundation_sdk.builders import barchart, dashboard, heatmap, stat, timeseries
from grafana_foundation_sdk.builders.statetimeline import Panel as StatesPanel

from monitoring.dashboards.frame import new_dashboard
from monitoring.dashboards.panels import (
    bars,
    heat,
    layers,
    lines,
    number,
    shares,
    states,
    worse_above,
    worse_below,
)
from monitoring.dashboards.query import Query, mean, quantiles

_DRAFTED = "rate(engine_spec_draft_tokens_total{@worker}[$window])"
_ACCEPTED = "rate(engine_spec_accepted_tokens_total{@worker}[$window])"
_DRAFTS = "rate(engine_spec_drafts_total{@worker}[$window])"


def acceptance_dashboard() -> dashboard.Dashboard:
    """The dashboard."""
    return (
        new_dashboard(
            "Acceptance",
            "specgate-acceptance",
            "How many draft tokens are accepted, by source, model, request and position in the "
            "draft; when the gate is open; what drafting costs.",
        )
        .with_row(dashboard.Row("Now"))
        .with_panel(_ratio())
        .with_panel(_length())
        .with_panel(_wasted())
        .with_panel(_steps_with_drafts())
        .with_panel(_drafting_time())
        .with_panel(_price_now())
        .with_row(dashboard.Row("By source and model"))
        .with_panel(_ratio_by_source())
        .with_panel(_ratio_by_model())
        .with_panel(_length_by_source())
        .with_panel(_length_by_model())
        .with_row(dashboard.Row("By request"))
        .with_panel(_ratio_by_request())
        .with_panel(_drafts_by_request())
        .with_row(dashboard.Row("By position in the draft"))
        .with_panel(_survival())
        .with_panel(_survival_over_time())
        .with_row(dashboard.Row("Gate and price"))
        .with_panel(_gate())
        .with_panel(_verdicts())
        .with_panel(_price())
        .with_panel(_least_survival())
        .with_panel(_step_time())
        .with_panel(_prediction())
        .with_panel(_step_cost())
        .with_panel(_step_cost_over_time())
        .with_row(dashboard.Row("What drafting costs"))
        .with_panel(_waste_by_source())
        .with_panel(_waste_share_by_source())
    )


def _ratio() -> stat.Panel:
    return (
        number(Query(f"sum({_ACCEPTED}) / sum({_DRAFTED})"))
        .title("Acceptance ratio")
        .description("Accepted share of the verified draft tokens.")
        .unit("percentunit")
        .thresholds(worse_below(0.3, 0.5))
    )


def _length() -> stat.Panel:
    return (
        number(Query(f"1 + sum({_ACCEPTED}) / sum({_DRAFTS})"))
        .title("Acceptance length")
        .description("Tokens per verified draft, including the target model's own token.")
        .decimals(2)
    )


def _wasted() -> stat.Panel:
    return (
        number(Query(f"sum({_DRAFTED}) - sum({_ACCEPTED})"))
        .title("Wasted drafts")
        .description("Draft tokens per second that were verified and rejected.")
        .unit("tok/s")
    )


def _steps_with_drafts() -> stat.Panel:
    drafted = 'sum(rate(engine_spec_steps_total{@worker, verdict="drafted"}[$window]))'
    steps = "sum(rate(engine_spec_steps_total{@worker}[$window]))"
    return (
        number(Query(f"{drafted} / {steps}"))
        .title("Steps with drafts")
        .description("Share of all steps; in the others there was no draft, or it did not pay.")
        .unit("percentunit")
    )


def _drafting_time() -> stat.Panel:
    own = 'sum(rate(engine_spec_step_seconds_sum{@worker, phase=~"draft|head"}[$window]))'
    model = 'sum(rate(engine_spec_step_seconds_sum{@worker, phase="target"}[$window]))'
    return (
        number(Query(f"{own} / ({own} + {model})"))
        .title("Time spent on drafting")
        .description("Share of the step time; verification is part of the rest.")
        .unit("percentunit")
        .thresholds(worse_above(0.15, 0.3))
    )


def _price_now() -> stat.Panel:
    return (
        number(Query("avg(engine_spec_price{@worker})"))
        .title("Price now")
        .description("Survival probability that a draft token needs to be worth verifying.")
        .unit("percentunit")
    )


def _ratio_by_source() -> timeseries.Panel:
    return (
        lines(Query(f"sum by (source) ({_ACCEPTED}) / sum by (source) ({_DRAFTED})", "{{source}}"))
        .title("Acceptance ratio by source")
        .description("Accepted share of each source's draft tokens, counted by the workers.")
        .unit("percentunit")
        .max(1)
    )


def _ratio_by_model() -> timeseries.Panel:
    by_request = mean("gateway_request_acceptance_ratio", "@model", by="model, source")
    return (
        lines(Query(by_request, "{{model}} {{source}}"))
        .title("Acceptance ratio by model, mean of requests")
        .description("Every request has the same weight, whatever its length.")
        .unit("percentunit")
        .max(1)
    )


def _length_by_source() -> timeseries.Panel:
    return (
        layers(
            Query(f"sum by (source) ({_ACCEPTED}) / scalar(sum({_DRAFTS}))", "{{source}}"),
        )
        .title("Accepted tokens per draft, by source")
        .description(
            "Tokens that each source adds to the target model's own token. Their sum plus one is "
            "the acceptance length."
        )
    )


def _length_by_model() -> timeseries.Panel:
    return (
        lines(
            Query(
                mean("gateway_request_acceptance_length", "@model", by="model"), "mean {{model}}"
            ),
            *quantiles(
                "gateway_request_acceptance_length_bucket{@model}", by="model", legend="{{model}}"
            ),
        )
        .title("Acceptance length by model")
        .description("Tokens per step that verified a draft, by request.")
    )


def _ratio_by_request() -> heatmap.Panel:
    buckets = "increase(gateway_request_acceptance_ratio_bucket{@model}[$window])"
    return (
        heat(Query(f"sum by (le) ({buckets})", "{{le}}"), exemplars=True)
        .title("Acceptance ratio of requests")
        .description(
            "Number of requests by ratio, once for each source. A point is one request; its "
            "`request_id` is in the gateway's access log and in the response header."
        )
    )


def _drafts_by_request() -> timeseries.Panel:
    return (
        lines(
            *quantiles(
                "gateway_request_draft_tokens_bucket{@model}", by="source", legend="{{source}}"
            )
        )
        .title("Draft tokens per request")
        .description("Long drafts that are always accepted may be a loop.")
    )


def _survival() -> barchart.Panel:
    accepted = "increase(engine_spec_accepted_at_position_total{@worker}[$window])"
    drafts = "increase(engine_spec_drafts_total{@worker}[$window])"
    return (
        bars(
            Query(f"sum by (position) ({accepted}) / scalar(sum({drafts}))", "{{position}}"),
            label="position",
        )
        .title("Accepted by position in the draft")
        .description("Share of all drafts accepted up to this position; the first token is 0.")
        .unit("percentunit")
    )


def _survival_over_time() -> timeseries.Panel:
    accepted = (
        'rate(engine_spec_accepted_at_position_total{@worker, position=~"0|1|3|7|15"}[$window])'
    )
    return (
        lines(Query(f"sum by (position) ({accepted}) / scalar(sum({_DRAFTS}))", "{{position}}"))
        .title("Accepted at some positions over time")
        .description("If later positions fall first, the text has become harder to predict.")
        .unit("percentunit")
    )


def _gate() -> StatesPanel:
    return (
        states(
            Query("min by (instance, source) (engine_spec_gate_open{@worker})",
                  "{{instance}} {{source}}"),
            off="closed",
            on="open",
        )
        .title("Gate")
        .description("Closed: the source is not used for a while, then tried again.")
    )  # fmt: skip


def _verdicts() -> timeseries.Panel:
    return (
        shares(
            Query(
                "sum by (verdict) (rate(engine_spec_steps_total{@worker}[$window]))", "{{verdict}}"
            )
        )
        .title("Verdicts")
        .description("The gate's decisions about drafting, per step.")
        .unit("ops")
    )


def _price() -> timeseries.Panel:
    return (
        lines(Query("avg by (instance) (engine_spec_price{@worker})", "{{instance}}"))
        .title("Price by worker")
        .description(
            "Survival probability that a draft token needs. Near 0: the worker has spare compute "
            "to verify any draft. Near 1: the batch is large, and no draft is worth its time."
        )
        .unit("percentunit")
        .max(1)
    )


def _least_survival() -> timeseries.Panel:
    return (
        lines(
            Query(
                "max by (instance, source) (engine_spec_least_survival{@worker})",
                "{{instance}} {{source}}",
            )
        )
        .title("Least survival")
        .description(
            "Draft tokens below it are not drafted, so that the source reaches "
            "min_acceptance_ratio; above 1 the source is closed."
        )
    )


def _step_time() -> timeseries.Panel:
    return (
        lines(
            Query(mean("engine_spec_step_seconds", "@worker", by="phase"), "{{phase}}"),
        )
        .title("Time of a step by phase, mean")
        .description(
            "target: forward pass of the model and sampling. head: a pass of the draft head. "
            "draft: the rest of the drafting code; draft_cpu: its CPU time."
        )
        .unit("s")
    )


def _prediction() -> timeseries.Panel:
    return (
        lines(
            *quantiles("engine_spec_step_prediction_ratio_bucket{@worker}", by="", legend=""),
            Query(mean("engine_spec_step_prediction_ratio", "@worker", by="instance"),
                  "mean {{instance}}"),
        )
        .title("Measured over expected time of a step")
        .description(
            "Near 1: the gate's cost model is accurate. Far from 1 for long: its costs are wrong, "
            "and so is the price."
        )
    )  # fmt: skip


def _step_cost() -> barchart.Panel:
    return (
        bars(
            Query("avg by (tokens) (engine_spec_step_cost_seconds{@worker})", "{{tokens}}"),
            label="tokens",
        )
        .title("Step time in the gate's cost model")
        .description("By the number of tokens that the step computes.")
        .unit("s")
    )


def _step_cost_over_time() -> timeseries.Panel:
    return (
        lines(
            Query("avg by (tokens) (engine_spec_step_cost_seconds{@worker})", "{{tokens}} tokens")
        )
        .title("Step time in the gate's cost model over time")
        .description("Learnt from measured steps; a jump means that the machine's speed changed.")
        .unit("s")
    )


def _waste_by_source() -> timeseries.Panel:
    return (
        layers(
            Query(f"sum by (source) ({_ACCEPTED})", "{{source}} accepted"),
            Query(f"sum by (source) ({_DRAFTED}) - sum by (source) ({_ACCEPTED})",
                  "{{source}} wasted"),
        )
        .title("Drafts: accepted and wasted")
        .description("Draft tokens per second.")
        .unit("tok/s")
    )  # fmt: skip


def _waste_share_by_source() -> timeseries.Panel:
    generated = "sum(rate(vllm:generation_tokens_total{@worker}[$window]))"
    return (
        lines(
            Query(
                f"(sum by (source) ({_DRAFTED}) - sum by (source) ({_ACCEPTED}))"
                f" / scalar({generated})",
                "{{source}}",
            )
        )
        .title("Wasted draft tokens per generated token")
        .description("Rejected draft tokens for each token that a client gets.")
    )
