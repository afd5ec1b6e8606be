"""The numbers in the rules that an operator may want otherwise; values of the chart.

A rule's text says `[[name]]` where one belongs: a field of `Thresholds`, or `runbookUrl`. The plain
files have the defaults there, the chart puts its values in (`templates/monitoring/rules.yaml`).
"""

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

RUNBOOK = "docs/runbook.md"
"""Where the runbook is, from the root of the project."""

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
"""Bounds of the histograms' buckets, as Prometheus writes them: it counts by no others."""
Share = Annotated[float, Field(gt=0, lt=1)]
Limit = Annotated[float, Field(ge=0, le=100_000)]


class Thresholds(BaseModel):
    """What is too much, and what is promised."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    acceptanceDrop: Share = Field(
        0.5,
        description="`SpecgateAcceptanceCollapse`: acceptance of 30 minutes over that of a day.",
    )
    acceptanceDraftRate: Limit = Field(
        1, description="It judges no source with fewer draft tokens a second."
    )
    perfectRequests: Share = Field(
        0.5,
        description="`SpecgateAcceptanceSuspicious`: part of the requests of which next to all "
        "drafts were accepted.",
    )
    perfectDraftTokens: Limit = Field(
        100, description="It judges no model with fewer draft tokens a request."
    )
    stuckPrice: Share = Field(
        0.95, description="`SpecgatePriceStuck`: survival that a draft token needs."
    )
    fallbacks: Limit = Field(
        0, description="`SpecgateSpeculationFallbacks`: steps or requests in 15 minutes."
    )
    suffixFull: Share = Field(
        0.95, description="`SpecgateSuffixMemoryFull`: part of the suffix index's memory in use."
    )
    suffixForgotten: Limit = Field(
        0.5, description="And what it forgets in an hour, over what it holds."
    )
    workerRestarts: Limit = Field(
        2, description="`SpecgateWorkerRestarts`: restarts in 30 minutes."
    )
    workerFlaps: Limit = Field(
        5, description="`SpecgateWorkerFlaps`: times that it went up or down in 30 minutes."
    )
    refusedRate: Limit = Field(
        0, description="`SpecgateQueueSaturated`: requests turned away, a second."
    )
    workerQueue: Limit = Field(
        1, description="`SpecgateWorkerQueueGrows`: requests that wait for each one that runs."
    )
    requestsKept: Share = Field(
        0.999, description="Promise: part of the requests that we do not fail."
    )
    firstTokensKept: Share = Field(
        0.99, description="Promise: part of the first tokens that come in time."
    )
    firstTokenSeconds: FirstTokenBound = Field(
        "2.0",
        description="What that time is: a bucket's bound as Prometheus writes it, in quotes.",
    )
    tokenGapsKept: Share = Field(
        0.99, description="Promise: part of the tokens that follow the one before in time."
    )
    tokenGapSeconds: TokenGapBound = Field("0.1", description="What that time is, likewise.")
    burnHour: Limit = Field(
        14.4,
        description="How many times as fast as promised the budget of what may be missed is used "
        "up, over an hour, for somebody to be woken: 14.4 is 2 % of 30 days'.",
    )
    burnHours: Limit = Field(6, description="The same over six hours: 6 is 5 % of it.")
    burnDays: Limit = Field(
        1, description="And over three days, for a look on a working day: 1 is 10 % of it."
    )


_PLACE = re.compile(r"\[\[(\w+)\]\]")


def with_defaults(text: str) -> str:
    """A rule's text as it is for whoever chooses nothing.

    Raises:
        KeyError: A place has the name of no value.
    """
    values = {"runbookUrl": RUNBOOK, **Thresholds().model_dump()}
    return _PLACE.sub(lambda place: _shown(values[place[1]]), text)


def _shown(value: float | str) -> str:
    """As the chart shows it: 0.5, 14.4, 100."""
    return value if isinstance(value, str) else f"{value:g}"
