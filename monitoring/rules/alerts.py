"""The alerts on speculation, workers, queues and service level objectives."""

from monitoring.rules.objectives import OBJECTIVES, Objective
from monitoring.rules.rule import Alert, Condition

_SPECULATION = (
    Alert(
        "SpecgateAcceptanceCollapse",
        "warning",
        "15m",
        (
            Condition(
                "namespace_source:engine_spec_acceptance:ratio_rate30m\n"
                "/ namespace_source:engine_spec_acceptance:ratio_rate1d",
                "< [[acceptanceDrop]]",
            ),
            # A closed gate still drafts occasionally to re-measure: too little to judge by.
            Condition(
                "namespace_source:engine_spec_draft_tokens:rate30m", "> [[acceptanceDraftRate]]"
            ),
        ),
        "Drafts of {{ $labels.source }} are accepted far less often than over the last day.",
        "The acceptance ratio of the last 30 minutes is {{ $value | humanizePercentage }} of that "
        "of the last day.",
        "acceptance-collapses",
    ),
    Alert(
        "SpecgateAcceptanceSuspicious",
        "warning",
        "15m",
        (
            Condition(
                "namespace_model_source:gateway_request_perfect:ratio_rate30m",
                "> [[perfectRequests]]",
            ),
            # Short drafts are often accepted entirely without the text being a loop.
            Condition(
                "namespace_model_source:gateway_request_draft_tokens:mean_rate30m",
                "> [[perfectDraftTokens]]",
            ),
        ),
        "Nearly all drafts for {{ $labels.model }} are accepted: its answers may be loops.",
        "In {{ $value | humanizePercentage }} of the requests more than 95 % of the draft tokens "
        "of {{ $labels.source }} were accepted, and the drafts are long.",
        "acceptance-is-suspiciously-perfect",
    ),
    Alert(
        "SpecgateGateStuck",
        "warning",
        "30m",
        (
            Condition(
                "max by (namespace, instance, source) (max_over_time(engine_spec_gate_open[15m]))",
                "== 0",
            ),
            Condition(
                "sum by (namespace, instance) (rate(engine_spec_steps_total[15m]))",
                "> 0",
                joined="and on (namespace, instance)",
            ),
        ),
        "The gate of {{ $labels.source }} on {{ $labels.instance }} stays closed.",
        "The worker has been decoding, but the gate has not opened for the source.",
        "the-gate-is-stuck",
    ),
    Alert(
        "SpecgatePriceStuck",
        "warning",
        "30m",
        (
            Condition("min_over_time(engine_spec_price[15m])", ">= [[stuckPrice]]"),
            Condition(
                "max by (namespace, instance) (max_over_time(vllm:num_requests_waiting[15m]))",
                "== 0",
                joined="and on (namespace, instance)",
            ),
            Condition(
                "sum by (namespace, instance) (rate(engine_spec_steps_total[15m]))",
                "> 0",
                joined="and on (namespace, instance)",
            ),
        ),
        "No draft pays on {{ $labels.instance }}, though no request waits there.",
        "A draft token would need a survival probability of {{ $value | humanizePercentage }}.",
        "the-gate-is-stuck",
    ),
    Alert(
        "SpecgateSpeculationFallbacks",
        "warning",
        "0m",
        (
            # The first failure creates the series with the value 1, which `increase` misses.
            Condition(
                "sum by (namespace, instance, reason) "
                "((engine_spec_fallbacks_total unless engine_spec_fallbacks_total offset 15m)"
                " or increase(engine_spec_fallbacks_total[15m]))",
                "> [[fallbacks]]",
            ),
        ),
        "Speculation fails on {{ $labels.instance }}: {{ $labels.reason }}.",
        "{{ $value | humanize }} steps or requests in 15 minutes were decoded without speculation; "
        "none failed.",
        "speculation-failed-in-the-workers-log-engine_spec_fallbacks_total-rises",
    ),
    Alert(
        "SpecgateCanaryDefect",
        "critical",
        "0m",
        (
            # As above, the first defect may create the series.
            Condition(
                "sum by (namespace, model) "
                '((gateway_canary_requests_total{result="differs"} unless '
                'gateway_canary_requests_total{result="differs"} offset 1h)'
                ' or increase(gateway_canary_requests_total{result="differs"}[1h]))',
                "> 0",
            ),
        ),
        "Speculation changed an answer of {{ $labels.model }}.",
        "Of the requests that were asked again without drafts within an hour, {{ $value | humanize "
        "}} had another answer, by more than rounding explains.",
        "speculation-changed-an-answer",
    ),
    Alert(
        "SpecgateSamplingBiased",
        "critical",
        "0m",
        (Condition("max by (namespace, instance) (engine_sampling_evidence)", "> 6"),),
        "Sampled text on {{ $labels.instance }} is not what the model would sample.",
        "The evidence is 10 to the {{ $value | humanize }}; a correct sampler ever reaches 10 to "
        "the 6 with a probability of at most one in a million.",
        "sampled-text-is-not-what-the-model-would-sample",
    ),
    Alert(
        "SpecgateSuffixMemoryFull",
        "warning",
        "30m",
        (
            Condition("engine_suffix_bytes / engine_suffix_capacity_bytes", "> [[suffixFull]]"),
            # A full index is normal; one that evicts its contents within two hours is too small.
            Condition(
                "increase(engine_suffix_evictions_total[1h]) / engine_suffix_tokens",
                "> [[suffixForgotten]]",
            ),
        ),
        "The suffix index of {{ $labels.instance }} is too small.",
        "{{ $value | humanizePercentage }} of its memory is in use, and it evicted a large share "
        "of its tokens within an hour.",
        "the-suffix-index-is-full",
    ),
)

_WORKERS = (
    Alert(
        "SpecgateNoWorker",
        "critical",
        "1m",
        (Condition("max by (namespace) (gateway_worker_up)", "== 0"),),
        "No worker is up: all requests fail.",
        "Requests wait in the queue and then get 503.",
        "no-worker-is-up",
    ),
    Alert(
        "SpecgateNoWorkerFound",
        "critical",
        "5m",
        (Condition("max by (namespace) (gateway_workers)", "== 0"),),
        "The gateways have found no worker: all requests fail.",
        "The workers' DNS name has had no address for 5 minutes.",
        "no-worker-is-found",
    ),
    Alert(
        "SpecgateWorkerDown",
        "warning",
        "5m",
        (Condition("min by (namespace, worker) (gateway_worker_up)", "== 0"),),
        "The worker {{ $labels.worker }} is down.",
        "It has failed its health checks for 5 minutes.",
        "a-worker-is-down",
    ),
    Alert(
        "SpecgateWorkerEjected",
        "warning",
        "0m",
        (
            Condition(
                "max by (namespace, worker) (avg_over_time(gateway_worker_ejected[10m]))", "> 0.5"
            ),
        ),
        "The worker {{ $labels.worker }} passes its health checks but fails its requests.",
        "It was ejected for {{ $value | humanizePercentage }} of the last 10 minutes.",
        "a-worker-is-ejected",
    ),
    Alert(
        "SpecgateWorkerNotProgressing",
        "critical",
        "2m",
        (
            Condition(
                "min by (namespace, instance) "
                "(min_over_time(vllm:num_requests_running[2m]) + vllm:num_requests_waiting)",
                "> 0",
            ),
            Condition(
                "sum by (namespace, instance) (rate(vllm:iteration_tokens_total_count[2m]))",
                "== 0",
            ),
        ),
        "The worker {{ $labels.instance }} has requests but executes no steps.",
        "{{ $value | humanize }} requests are stuck in it.",
        "a-worker-makes-no-progress",
    ),
    Alert(
        "SpecgateWorkerRestarts",
        "warning",
        "0m",
        (
            Condition(
                "sum by (namespace, worker) (increase(gateway_worker_restarts_total[30m]))",
                "> [[workerRestarts]]",
            ),
            # The counters of workers that Kubernetes restarts are reset.
            Condition(
                "label_replace(max by (namespace, instance) "
                "(resets(vllm:iteration_tokens_total_count[30m])), "
                '"worker", "$1", "instance", "(.+)")',
                "> [[workerRestarts]]",
                joined="or on (namespace)",
            ),
        ),
        "The worker {{ $labels.worker }} restarts repeatedly.",
        "{{ $value | humanize }} restarts in 30 minutes.",
        "a-worker-restarts-gateway_worker_restarts_total",
    ),
    Alert(
        "SpecgateWorkerFlaps",
        "warning",
        "0m",
        (
            Condition(
                "max by (namespace, worker) (changes(gateway_worker_up[30m]))",
                "> [[workerFlaps]]",
            ),
        ),
        "The worker {{ $labels.worker }} is flapping.",
        "It went up or down {{ $value | humanize }} times in 30 minutes.",
        "a-worker-restarts-gateway_worker_restarts_total",
    ),
)

_QUEUES = (
    Alert(
        "SpecgateQueueSaturated",
        "critical",
        "5m",
        (
            Condition(
                "sum by (namespace) (rate(gateway_rejections_total"
                '{reason=~"queue_full|queue_timeout"}[5m]))',
                "> [[refusedRate]]",
            ),
        ),
        "Requests are rejected: the gateway's queue is full, or they wait too long in it.",
        "{{ $value | humanize }} requests per second get 503.",
        "clients-get-503-overloaded",
    ),
    Alert(
        "SpecgateWorkerQueueGrows",
        "warning",
        "10m",
        (
            Condition(
                "sum by (namespace, instance) (avg_over_time(vllm:num_requests_waiting[5m]))\n"
                "/ sum by (namespace, instance) (avg_over_time(vllm:num_requests_running[5m]))",
                "> [[workerQueue]]",
            ),
        ),
        "More requests wait in {{ $labels.instance }} than run.",
        "{{ $value | humanize }} requests wait for each running one.",
        "requests-wait-in-a-worker",
    ),
)


def _burns(objective: Objective) -> tuple[Alert, Alert]:
    """Two alerts: the budget is exhausted within days, or before the end of the period."""

    def both(long: str, short: str, factor: str, *, joined: str = "and") -> tuple[Condition, ...]:
        return (
            Condition(objective.burn(long), f"> {factor}", joined=joined),
            Condition(objective.burn(short), f"> {factor}"),
        )

    name = "".join(word.capitalize() for word in objective.name.split("_"))
    return (
        Alert(
            f"Specgate{name}BudgetBurnsFast",
            "critical",
            "2m",
            (
                *both("1h", "5m", "[[burnHour]]"),
                *both("6h", "30m", "[[burnHours]]", joined="or"),
            ),
            f"{objective.title}: far below the objective.",
            f"{objective.statement} The error budget is used up {{{{ $value | humanize }}}} times "
            "as fast as it allows.",
            objective.anchor,
        ),
        Alert(
            f"Specgate{name}BudgetBurnsSlowly",
            "warning",
            "1h",
            both("3d", "6h", "[[burnDays]]"),
            f"{objective.title}: below the objective for days.",
            f"{objective.statement} The error budget is used up {{{{ $value | humanize }}}} times "
            "as fast as it allows, so the objective will be missed this month.",
            objective.anchor,
        ),
    )


ALERTS: tuple[Alert, ...] = (
    *_SPECULATION,
    *_WORKERS,
    *_QUEUES,
    *(alert for objective in OBJECTIVES for alert in _burns(objective)),
)
