"""Recorded series for alerts and dashboards, over windows too long to compute for each query."""

from monitoring.rules.objectives import OBJECTIVES, WINDOWS
from monitoring.rules.rule import Recording


def _acceptance(window: str) -> Recording:
    """Accepted share of the draft tokens; 0, not absent, for a source without accepted ones."""
    drafted = f"sum by (namespace, source) (rate(engine_spec_draft_tokens_total[{window}]))"
    accepted = f"sum by (namespace, source) (rate(engine_spec_accepted_tokens_total[{window}]))"
    return Recording(
        f"namespace_source:engine_spec_acceptance:ratio_rate{window}",
        f"({accepted} or 0 * {drafted})\n/ {drafted}",
    )


_DRAFTED = Recording(
    "namespace_source:engine_spec_draft_tokens:rate30m",
    "sum by (namespace, source) (rate(engine_spec_draft_tokens_total[30m]))",
)
_PERFECT = Recording(
    "namespace_model_source:gateway_request_perfect:ratio_rate30m",
    "1 - sum by (namespace, model, source) "
    '(rate(gateway_request_acceptance_ratio_bucket{le="0.95"}[30m]))\n'
    "/ sum by (namespace, model, source) (rate(gateway_request_acceptance_ratio_count[30m]))",
)
_DRAFT_LENGTH = Recording(
    "namespace_model_source:gateway_request_draft_tokens:mean_rate30m",
    "sum by (namespace, model, source) (rate(gateway_request_draft_tokens_sum[30m]))\n"
    "/ sum by (namespace, model, source) (rate(gateway_request_draft_tokens_count[30m]))",
)

RECORDINGS: tuple[Recording, ...] = (
    *(_acceptance(window) for window in ("5m", "30m", "1d")),
    _DRAFTED,
    _PERFECT,
    _DRAFT_LENGTH,
    *(
        Recording(objective.burn(window), objective.burn_query(window))
        for objective in OBJECTIVES
        for window in WINDOWS
    ),
)
