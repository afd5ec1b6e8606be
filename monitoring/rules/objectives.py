"""Service level objectives (SLOs) and their burn rates.

An objective is a share of good events; the rest is the error budget. Its burn rate is the share of
bad events divided by the budget: at a burn rate of 1 the budget lasts exactly 30 days.
Source: Google's Site Reliability Workbook, chapter 5, "Alerting on SLOs", multi-window.
"""

from dataclasses import dataclass

WINDOWS = ("5m", "30m", "1h", "6h", "3d")
"""The windows over which every burn rate is recorded."""


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective for events of one kind.

    Attributes:
        name: Part of the recorded series' names: `<labels>:gateway_<name>_burn:rate<window>`.
        title: What good events are.
        statement: A sentence with the target share, as a placeholder.
        target: The target share in PromQL, a placeholder.
        labels: Labels by which the series are grouped.
        bad: PromQL for the rate of bad events; `WINDOW` stands for the window.
        all: PromQL for the rate of all events.
        anchor: Anchor of its alerts' entry in the runbook.
    """

    name: str
    title: str
    statement: str
    target: str
    labels: str
    bad: str
    all: str
    anchor: str

    def burn(self, window: str) -> str:
        """Return the name of the recorded burn rate."""
        prefix = self.labels.replace(", ", "_")
        return f"{prefix}:gateway_{self.name}_burn:rate{window}"

    def burn_query(self, window: str) -> str:
        """Return PromQL for the burn rate over a window."""
        bad, total = (part.replace("WINDOW", window) for part in (self.bad, self.all))
        return f"({bad})\n/ ({total})\n/ (1 - {self.target})"


def _slower_than(histogram: str, labels: str, *matchers: str, bound: str) -> tuple[str, str]:
    """Return PromQL for the rates of observations above a bucket's bound, and of all."""
    chosen = "{" + ", ".join(matchers) + "}" if matchers else ""
    bounded = "{" + ", ".join((*matchers, f'le="{bound}"')) + "}"
    total = f"sum by ({labels}) (rate({histogram}_count{chosen}[WINDOW]))"
    within = f"sum by ({labels}) (rate({histogram}_bucket{bounded}[WINDOW]))"
    return f"{total} - {within}", total


_TTFT = _slower_than(
    "gateway_time_to_first_token_seconds", "namespace, model", bound="[[firstTokenSeconds]]"
)
_GAP = _slower_than(
    "gateway_inter_token_seconds", "namespace", 'stage="client"', bound="[[tokenGapSeconds]]"
)

OBJECTIVES = (
    Objective(
        name="failures",
        title="Requests that the service did not fail",
        statement="The objective is a share of [[requestsKept]].",
        target="[[requestsKept]]",
        labels="namespace",
        # Invalid, cancelled and rate-limited requests are not failures of the service.
        bad="sum by (namespace) "
        '(rate(gateway_requests_total{outcome=~"upstream_error|internal_error"}[WINDOW])) '
        "or 0 * sum by (namespace) (rate(gateway_requests_total[WINDOW]))",
        all="sum by (namespace) (rate(gateway_requests_total[WINDOW]))",
        anchor="error-budget-burns",
    ),
    Objective(
        name="ttft",
        title="First tokens in time",
        statement="The objective is a share of [[firstTokensKept]] within [[firstTokenSeconds]] s.",
        target="[[firstTokensKept]]",
        labels="namespace, model",
        bad=_TTFT[0],
        all=_TTFT[1],
        anchor="first-tokens-come-late",
    ),
    Objective(
        name="token_gap",
        title="Gaps between tokens in time",
        statement="The objective is a share of [[tokenGapsKept]] within [[tokenGapSeconds]] s.",
        target="[[tokenGapsKept]]",
        labels="namespace",
        bad=_GAP[0],
        all=_GAP[1],
        anchor="tokens-come-slowly",
    ),
)
