"""The dashboard *Acceptance*: how much speculation saves, by source, and what it costs."""

from grafana_foundation_sdk.builders import barchart, dashboard, heatmap, stat, timeseries

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
from monitoring.dashboards.query import Query, mean, per_second, quantiles

_DRAFTED = "rate(engine_spec_draft_tokens_total{@worker}[$window])"
_ACCEPTED = "rate(engine_spec_accepted_tokens_total{@worker}[$window])"
_DRAFTS = "rate(engine_spec_drafts_total{@worker}[$window])"


def acceptance_dashboard() -> dashboard.Dashboard:
    """Return the dashboard."""
    return new_dashboard(
        "Acceptance",
        "How many draft tokens are accepted, by source, model, request and position in the "
        "draft; when the gate is open; what drafting costs.",
        {
            "Now": [
                number(
                    "Acceptance ratio",
                    "Accepted share of the verified draft tokens.",
                    Query(f"sum({_ACCEPTED}) / sum({_DRAFTED})"),
                    unit="percentunit",
                ).thresholds(worse_below(0.3, 0.5)),
                number(
                    "Acceptance length",
                    "Tokens per verified draft, including the target model's own token.",
                    Query(f"1 + sum({_ACCEPTED}) / sum({_DRAFTS})"),
                ).decimals(2),
                number(
                    "Wasted drafts",
                    "Draft tokens per second that were verified and rejected.",
                    Query(f"sum({_DRAFTED}) - sum({_ACCEPTED})"),
                    unit="tok/s",
                ),
                _steps_with_drafts(),
                _drafting_time(),
                number(
                    "Price now",
                    "Survival probability that a draft token needs to be worth verifying.",
                    Query("avg(engine_spec_price{@worker})"),
                    unit="percentunit",
                ),
            ],
            "By source and model": [
                lines(
                    "Acceptance ratio by source",
                    "Accepted share of each source's draft tokens, counted by the workers.",
                    Query(
                        f"sum by (source) ({_ACCEPTED}) / sum by (source) ({_DRAFTED})",
                        "{{source}}",
                    ),
                    unit="percentunit",
                ).max(1),
                _ratio_by_model(),
                layers(
                    "Accepted tokens per draft, by source",
                    "Tokens that each source adds to the target model's own token. Their sum plus "
                    "one is the acceptance length.",
                    Query(f"sum by (source) ({_ACCEPTED}) / scalar(sum({_DRAFTS}))", "{{source}}"),
                ),
                lines(
                    "Acceptance length by model",
                    "Tokens per step that verified a draft, by request.",
                    Query(
                        mean("gateway_request_acceptance_length", "@model", by="model"),
                        "mean {{model}}",
                    ),
                    *quantiles(
                        "gateway_request_acceptance_length_bucket{@model}",
                        by="model",
                        legend="{{model}}",
                    ),
                ),
            ],
            "By request": [
                _ratio_by_request(),
                lines(
                    "Draft tokens per request",
                    "Long drafts that are always accepted may be a loop.",
                    *quantiles(
                        "gateway_request_draft_tokens_bucket{@model}",
                        by="source",
                        legend="{{source}}",
                    ),
                ),
            ],
            "By position in the draft": [
                _survival(),
                _survival_over_time(),
            ],
            "Gate and price": [
                states(
                    "Gate",
                    "Closed: the source is not used for a while, then tried again.",
                    Query(
                        "min by (instance, source) (engine_spec_gate_open{@worker})",
                        "{{instance}} {{source}}",
                    ),
                    off="closed",
                    on="open",
                ),
                shares(
                    "Verdicts",
                    "The gate's decisions about drafting, per step.",
                    per_second("engine_spec_steps_total{@worker}", by="verdict"),
                    unit="ops",
                ),
                lines(
                    "Price by worker",
                    "Survival probability that a draft token needs. Near 0: the worker has spare "
                    "compute to verify any draft. Near 1: the batch is large, and no draft is "
                    "worth its time.",
                    Query("avg by (instance) (engine_spec_price{@worker})", "{{instance}}"),
                    unit="percentunit",
                ).max(1),
                lines(
                    "Trust in the suffix index",
                    "Accepted over stated tokens, recently. Its survivals are multiplied by it; "
                    "below 1 it is too sure.",
                    Query("avg by (instance) (engine_spec_trust{@worker})", "{{instance}}"),
                ),
                lines(
                    "Time of a step by phase, mean",
                    "target: forward pass of the model and sampling. head: a pass of the draft "
                    "head. draft: the rest of the drafting code; draft_cpu: its CPU time.",
                    Query(mean("engine_spec_step_seconds", "@worker", by="phase"), "{{phase}}"),
                    unit="s",
                ),
                lines(
                    "Measured over expected time of a step",
                    "Near 1: the gate's cost model is accurate. Far from 1 for long: its costs are "
                    "wrong, and so is the price.",
                    *quantiles(
                        "engine_spec_step_prediction_ratio_bucket{@worker}", by="", legend=""
                    ),
                    Query(
                        mean("engine_spec_step_prediction_ratio", "@worker", by="instance"),
                        "mean {{instance}}",
                    ),
                ),
                bars(
                    "Step time in the gate's cost model",
                    "By the number of tokens that the step computes.",
                    Query("avg by (tokens) (engine_spec_step_cost_seconds{@worker})", "{{tokens}}"),
                    label="tokens",
                    unit="s",
                ),
                lines(
                    "Step time in the gate's cost model over time",
                    "Learnt from measured steps; a jump means that the machine's speed changed.",
                    Query(
                        "avg by (tokens) (engine_spec_step_cost_seconds{@worker})",
                        "{{tokens}} tokens",
                    ),
                    unit="s",
                ),
            ],
            "What drafting costs": [
                layers(
                    "Drafts: accepted and wasted",
                    "Draft tokens per second.",
                    Query(f"sum by (source) ({_ACCEPTED})", "{{source}} accepted"),
                    Query(
                        f"sum by (source) ({_DRAFTED}) - sum by (source) ({_ACCEPTED})",
                        "{{source}} wasted",
                    ),
                    unit="tok/s",
                ),
                _waste_share_by_source(),
            ],
        },
    )


def _steps_with_drafts() -> stat.Panel:
    drafted = 'sum(rate(engine_spec_steps_total{@worker, verdict="drafted"}[$window]))'
    steps = "sum(rate(engine_spec_steps_total{@worker}[$window]))"
    return number(
        "Steps with drafts",
        "Share of all steps; in the others there was no draft, or it did not pay.",
        Query(f"{drafted} / {steps}"),
        unit="percentunit",
    )


def _drafting_time() -> stat.Panel:
    own = 'sum(rate(engine_spec_step_seconds_sum{@worker, phase=~"draft|head"}[$window]))'
    model = 'sum(rate(engine_spec_step_seconds_sum{@worker, phase="target"}[$window]))'
    return number(
        "Time spent on drafting",
        "Share of the step time; verification is part of the rest.",
        Query(f"{own} / ({own} + {model})"),
        unit="percentunit",
    ).thresholds(worse_above(0.15, 0.3))


def _ratio_by_model() -> timeseries.Panel:
    by_request = mean("gateway_request_acceptance_ratio", "@model", by="model, source")
    return lines(
        "Acceptance ratio by model, mean of requests",
        "Every request has the same weight, whatever its length.",
        Query(by_request, "{{model}} {{source}}"),
        unit="percentunit",
    ).max(1)


def _ratio_by_request() -> heatmap.Panel:
    buckets = "increase(gateway_request_acceptance_ratio_bucket{@model}[$window])"
    return heat(
        "Acceptance ratio of requests",
        "Number of requests by ratio, once for each source. A point is one request; its "
        "`request_id` is in the gateway's access log and in the response header.",
        Query(f"sum by (le) ({buckets})", "{{le}}"),
        exemplars=True,
    )


def _survival() -> barchart.Panel:
    accepted = "increase(engine_spec_accepted_at_position_total{@worker}[$window])"
    drafts = "increase(engine_spec_drafts_total{@worker}[$window])"
    return bars(
        "Accepted by position in the draft",
        "Share of all drafts accepted up to this position; the first token is 0.",
        Query(f"sum by (position) ({accepted}) / scalar(sum({drafts}))", "{{position}}"),
        label="position",
        unit="percentunit",
    )


def _survival_over_time() -> timeseries.Panel:
    accepted = (
        'rate(engine_spec_accepted_at_position_total{@worker, position=~"0|1|3|7|15"}[$window])'
    )
    return lines(
        "Accepted at some positions over time",
        "If later positions fall first, the text has become harder to predict.",
        Query(f"sum by (position) ({accepted}) / scalar(sum({_DRAFTS}))", "{{position}}"),
        unit="percentunit",
    )


def _waste_share_by_source() -> timeseries.Panel:
    generated = "sum(rate(vllm:generation_tokens_total{@worker}[$window]))"
    return lines(
        "Wasted draft tokens per generated token",
        "Rejected draft tokens for each token that a client gets.",
        Query(
            f"(sum by (source) ({_DRAFTED}) - sum by (source) ({_ACCEPTED})) / scalar({generated})",
            "{{source}}",
        ),
    )
