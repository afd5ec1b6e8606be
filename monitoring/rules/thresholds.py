"""The thresholds of the rules, which are values of the chart.

A rule's text contains placeholders `[[name]]`, where the name is a field of `Thresholds` or
`runbookUrl`. The plain files contain the defaults; the chart inserts its values
(`templates/monitoring/rules.yaml`).
"""

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

RUNBOOK = "docs/runbook.md"
"""Path of the runbook in the repository."""

# fmt: off
FirstTokenBound = Literal[
    "0.05", "0.1", "0.2", "0.3", "0.5", "0.75",
    "1.0", "1.5", "2.0", "3.0", "5.0", "10.0", "20.0", "30.0", "60.0",
]
TokenGapBound = Literal[
    "0.01", "0.015", "0.02", "0.03", "0.04", "0.05", "0.075",
    "0.1", "0.15", "0.2", "0.3", "0.5", "1.0", "2.5",
]
# fmt: on
"""Bucket bounds of the histograms, as Prometheus writes them; only these can be compared with."""
Share = Annotated[float, Field(gt=0, lt=1)]
Limit = Annotated[float, Field(ge=0, le=100_000)]


class Thresholds(BaseModel):
    """Thresholds of the alerts and service level objectives (SLOs)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    acceptanceDrop: Share = Field(
        0.5,
        description="`SpecgateAcceptanceCollapse`: fires when acceptance over 30 minutes is below "
        "this share of the acceptance over a day.",
    )
    acceptanceDraftRate: Limit = Field(
        1, description="It ignores sources with fewer draft tokens per second."
    )
    perfectRequests: Share = Field(
        0.5,
        description="`SpecgateAcceptanceSuspicious`: share of the requests with more than 95 % of "
        "their draft tokens accepted.",
    )
    perfectDraftTokens: Limit = Field(
        100, description="It ignores models with fewer draft tokens per request."
    )
    stuckPrice: Share = Field(
        0.95,
        description="`SpecgatePriceStuck`: survival probability that a draft token needs to pay.",
    )
    fallbacks: Limit = Field(
        0, description="`SpecgateSpeculationFallbacks`: failed steps or requests in 15 minutes."
    )
    suffixFull: Share = Field(
        0.95, description="`SpecgateSuffixMemoryFull`: share of the suffix index's memory in use."
    )
    suffixForgotten: Limit = Field(
        0.5, description="And tokens evicted within an hour, as a share of the tokens stored."
    )
    workerRestarts: Limit = Field(
        2, description="`SpecgateWorkerRestarts`: restarts in 30 minutes."
    )
    workerFlaps: Limit = Field(
        5, description="`SpecgateWorkerFlaps`: changes between up and down in 30 minutes."
    )
    refusedRate: Limit = Field(
        0, description="`SpecgateQueueSaturated`: rejected requests per second."
    )
    workerQueue: Limit = Field(
        1, description="`SpecgateWorkerQueueGrows`: waiting requests per running request."
    )
    requestsKept: Share = Field(
        0.999, description="SLO: share of the requests that the service does not fail."
    )
    firstTokensKept: Share = Field(
        0.99, description="SLO: share of the first tokens within `firstTokenSeconds`."
    )
    firstTokenSeconds: FirstTokenBound = Field(
        "2.0",
        description="Time to first token, in seconds: one of the histogram's bucket bounds as "
        "Prometheus writes it, in quotes.",
    )
    tokenGapsKept: Share = Field(
        0.99, description="SLO: share of the gaps between tokens within `tokenGapSeconds`."
    )
    tokenGapSeconds: TokenGapBound = Field(
        "0.1",
        description="Gap between tokens, in seconds: one of the histogram's bucket bounds, in "
        "quotes.",
    )
    burnHour: Limit = Field(
        14.4,
        description="Burn rate of an error budget over one hour for a critical alert; 14.4 uses "
        "2 % of the budget of 30 days.",
    )
    burnHours: Limit = Field(6, description="The same over six hours; 6 uses 5 % of the budget.")
    burnDays: Limit = Field(
        1, description="Burn rate over three days for a warning; 1 uses 10 % of the budget."
    )


_PLACEHOLDER = re.compile(r"\[\[(\w+)\]\]")


def with_defaults(text: str) -> str:
    """Return a rule's text with the default values.

    Raises:
        KeyError: A placeholder has an unknown name.
    """
    values = {"runbookUrl": RUNBOOK, **Thresholds().model_dump()}
    return _PLACEHOLDER.sub(lambda match: _format(values[match[1]]), text)


def _format(value: float | str) -> str:
    """Format a value as the chart does: 0.5, 14.4, 100."""
    return value if isinstance(value, str) else f"{value:g}"
