"""Arithmetic over replays: sums over data sets, rates, ratios over rounds, and the trade-off."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from bench.rounds import Json

DRAFTED_SHARE = 0.85  # the trade-off is read where ours drafts so much of what the peer drafts


@dataclass(frozen=True, slots=True)
class Figures:
    """What replays of one or several data sets counted; times are sums in nanoseconds."""

    requests: float = 0
    prompt_tokens: float = 0
    answer_tokens: float = 0
    steps: float = 0
    accepted: float = 0
    drafted: float = 0
    stated_loss: float = 0
    raw_loss: float = 0
    prompt_ns: float = 0
    append_ns: float = 0
    finish_ns: float = 0
    propose_sum_ns: float = 0

    def __add__(self, other: "Figures") -> "Figures":
        names = [field.name for field in fields(Figures)]
        return Figures(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def accepted_per_step(self) -> float:
        return self.accepted / max(1.0, self.steps)

    @property
    def drafted_per_step(self) -> float:
        return self.drafted / max(1.0, self.steps)

    @property
    def stated_log_loss(self) -> float:
        return self.stated_loss / max(1.0, self.drafted)

    @property
    def raw_log_loss(self) -> float:
        return self.raw_loss / max(1.0, self.drafted)

    @property
    def append_token_ns(self) -> float:
        return self.append_ns / max(1.0, self.answer_tokens)

    @property
    def kept_token_ns(self) -> float:
        """With the end of the request, where the answer moves to the shared text."""
        return (self.append_ns + self.finish_ns) / max(1.0, self.answer_tokens)

    @property
    def prompt_token_ns(self) -> float:
        return self.prompt_ns / max(1.0, self.prompt_tokens)

    @property
    def propose_call_ns(self) -> float:
        return self.propose_sum_ns / max(1.0, self.steps)


def figures_of(tally: Json) -> Figures:
    """Read what a side's process answered for one data set."""
    numbers = {k: v for k, v in tally.items() if isinstance(v, (int, float))}
    propose = tally["propose_ns"]
    assert isinstance(propose, dict)
    return Figures(**numbers, propose_sum_ns=(propose["mean"] or 0.0) * (propose["count"] or 0))


def pooled(replay: Mapping[str, Figures], names: Sequence[str]) -> Figures:
    """Add up some data sets, so that each weighs as it is long."""
    return sum((replay[name] for name in names), Figures())


def ratio(ours: float, theirs: float) -> float | None:
    """None where there is nothing to compare with."""
    return ours / theirs if theirs else None


def accepted_at_drafted(curve: Sequence[Figures], drafted_per_step: float) -> float | None:
    """Accepted tokens a step where ours drafts so many, between two thresholds linearly.

    Args:
        curve: The same requests at several thresholds, in any order.
        drafted_per_step: Where to read the curve.

    Returns:
        None when every threshold drafts more. When every one drafts less, what the most generous
        one gets accepted: a lower bound.
    """
    points = sorted({(point.drafted_per_step, point.accepted_per_step) for point in curve})
    below = [point for point in points if point[0] <= drafted_per_step]
    above = [point for point in points if point[0] > drafted_per_step]
    if not below:
        return None
    if not above:
        return below[-1][1]
    (x0, y0), (x1, y1) = below[-1], above[0]
    return y0 + (y1 - y0) * (drafted_per_step - x0) / (x1 - x0)
