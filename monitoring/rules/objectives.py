"""What the service promises, and how fast it may use up what it may miss.

An objective is a share of good events; the rest is the budget. Its burn rate is the share of bad
events over the budget: at 1 the budget is used up just at the end of the period of 30 days.
Source: Google's Site Reliability Workbook, chapter 5, "Alerting on SLOs", multi-window.
"""

from dataclasses import dataclass

WINDOWS = ("5m", "30m", "1h", "6h", "3d")
"""Every burn rate is recorded over these."""


@dataclass(frozen=True, slots=True)
class Objective:
    """A promise about events of one kind.

    Attributes:
        name: In recorded series: `<labels>:gateway_<name>_burn:rate<window>`.
        title: For people: what good events are.
        promise: For people: the share of them that is promised, a sentence with places.
        kept: The same share for PromQL, a place.
        labels: What its series are told apart by.
        bad: PromQL for the rate of bad events; `WINDOW` stands for the window.
        all: The same for all events.
        anchor: The heading of its alerts in the runbook, as its link.
    """

    name: str
    title: str
    promise: str
    kept: str
    labels: str
    bad: str
    all: str
    anchor: str

    def burn(self, window: str) -> str:
        """The recorded series of its burn rate."""
        prefix = self.labels.replace(", ", "_")
        return f"{prefix}:gateway_{self.name}_burn:rate{window}"

    def burn_query(self, window: str) -> str:
        """PromQL for the burn rate over a window."""
        bad, total = (part.replace("WINDOW", window) for part in (self.bad, self.all))
        return f"({bad})\n/ ({total})\n/ (1 - {self.kept})"


def _slower_than(histogram: str, labels: str, *matchers: str, bound: str) -> tuple[str, str]:
    """Rates of observations above a bucket's bound, and of all."""
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
        title="Requests that we did not fail",
        promise="A share of [[requestsKept]] is promised.",
        kept="[[requestsKept]]",
        labels="namespace",
        # What callers did wrong or gave up, and what was over a key's limit, is no failure of ours.
        bad="sum by (namespace) "
        '(rate(gateway_requests_total{outcome=~"upstream_error|internal_error"}[WINDOW])) '
        "or 0 * sum by (namespace) (rate(gateway_requests_total[WINDOW]))",
        all="sum by (namespace) (rate(gateway_requests_total[WINDOW]))",
        anchor="error-budget-burns",
    ),
    Objective(
        name="ttft",
        title="First tokens in time",
        promise="A share of [[firstTokensKept]] is promised within [[firstTokenSeconds]] s.",
        kept="[[firstTokensKept]]",
        labels="namespace, model",
        bad=_TTFT[0],
        all=_TTFT[1],
        anchor="first-tokens-come-late",
    ),
    Objective(
        name="token_gap",
        title="Tokens in time after the one before",
        promise="A share of [[tokenGapsKept]] is promised within [[tokenGapSeconds]] s.",
        kept="[[tokenGapsKept]]",
        labels="namespace",
        bad=_GAP[0],
        all=_GAP[1],
        anchor="tokens-come-slowly",
    ),
)
