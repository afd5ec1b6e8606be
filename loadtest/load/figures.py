"""The figures of a run, each with its definition. Pure.

Latencies are of clients that read at full speed and to the end, and count from when a request was
due, not from when it was sent: a server that stalls cannot hide requests that had to wait.

| figure | unit | what it is | no value when |
|---|---|---|---|
| first_token_ms | ms | due to the first text | no stream brought text |
| gap_ms | ms | between tokens, each token once (`Answer.gaps_ms`) | streams do not count tokens |
| per_token_ms | ms | a request's mean gap, over requests | usage is missing |
| total_ms | ms | due to the end of a good answer | none was good |
| goodput_ratio | 0-1 | measured requests that were good and met both objectives | none was due |
| goodput_per_second | 1/s | those, over the time of the run | - |
| acceptance_ratio | 0-1 | accepted / drafted tokens, all requests | nothing was drafted |
| acceptance_length | tokens | per target step that verified a draft, bonus included | likewise |
| late_ms | ms | due to sent: the client's own delay | - |
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from loadtest.load.answer import Answer, Ending, Speculation
from loadtest.load.run import Outcome
from loadtest.load.scenario import Objective

Values = NDArray[np.float64]
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Summary:
    """A distribution in a few numbers.

    Attributes:
        count: Of values, each token's for gaps.
    """

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What a group of requests came to; units are in the names, definitions above.

    Attributes:
        endings: Number of requests by how they ended.
        errors: Number of requests by OpenAI's error code, or by the cause of a broken connection.
        objective_met: Measured requests that were good and met both objectives.
        measured: Requests of clients that read at full speed to the end.
        sources: Drafted and accepted tokens by source.
    """

    requests: int
    endings: dict[str, int]
    errors: dict[str, int]
    measured: int
    objective_met: int
    goodput_ratio: float | None
    goodput_per_second: float
    completed_per_second: float
    output_tokens: int
    output_tokens_per_second: float
    first_token_ms: Summary | None
    gap_ms: Summary | None
    per_token_ms: Summary | None
    total_ms: Summary | None
    acceptance_ratio: float | None
    acceptance_length: float | None
    sources: dict[str, dict[str, int]]
    late_ms: Summary | None

    def as_json(self) -> dict[str, object]:
        """As a JSON object."""
        return asdict(self)


def figures_of(outcomes: Sequence[Outcome], objective: Objective, *, seconds: float) -> Figures:
    """Compute the figures of a group of requests.

    Args:
        outcomes: The group; may be empty.
        objective: What goodput asks for.
        seconds: Length of the time in which they were sent and answered, above zero.
    """
    answers = [outcome.answer for outcome in outcomes]
    measured = [o.answer for o in outcomes if o.arrival.traffic.is_measured]
    good = [answer for answer in measured if answer.ending is Ending.DONE]
    met = sum(meets(answer, objective) for answer in good)
    tokens = sum(answer.tokens or 0 for answer in answers)
    drafted = _drafted(answers)
    return Figures(
        requests=len(answers),
        endings=_counted(answer.ending for answer in answers),
        errors=_counted(a.error for a in answers if a.error is not None),
        measured=len(measured),
        objective_met=met,
        goodput_ratio=met / len(measured) if measured else None,
        goodput_per_second=met / seconds,
        completed_per_second=sum(a.ending is Ending.DONE for a in answers) / seconds,
        output_tokens=tokens,
        output_tokens_per_second=tokens / seconds,
        first_token_ms=summarise(first_tokens(measured)),
        gap_ms=summarise(*gaps(measured)),
        per_token_ms=summarise(_known(answer.per_token_ms() for answer in good)),
        total_ms=summarise(np.array([answer.total_ms() for answer in good])),
        acceptance_ratio=drafted.accepted / drafted.drafted if drafted.drafted else None,
        acceptance_length=1 + drafted.accepted / drafted.steps if drafted.steps else None,
        sources={
            name: {"drafted": counts[0], "accepted": counts[1]}
            for name, counts in drafted.by_source.items()
        },
        late_ms=summarise(lateness(answers)),
    )


def meets(answer: Answer, objective: Objective) -> bool:
    """Whether a good answer counts for goodput.

    An answer in one piece shows no first token and no gaps: its total time must be within the
    objectives of the first token and of its further tokens together.
    """
    further = max(0, (answer.tokens or 1) - 1)
    if not answer.arrivals:
        allowed_ms = objective.first_token_ms + further * objective.per_token_ms
        return answer.total_ms() <= allowed_ms
    first_ms, mean_ms = answer.first_text_ms(), answer.per_token_ms()
    in_time = first_ms is not None and first_ms <= objective.first_token_ms
    return in_time and (mean_ms is None or mean_ms <= objective.per_token_ms)


def first_tokens(answers: Iterable[Answer]) -> Values:
    """Times to the first text, in ms."""
    return _known(answer.first_text_ms() for answer in answers)


def gaps(answers: Iterable[Answer]) -> tuple[Values, Values]:
    """Gaps between tokens in ms, and how many tokens had each."""
    pairs = [pair for answer in answers for pair in answer.gaps_ms()]
    return np.array([length for length, _ in pairs]), np.array([tokens for _, tokens in pairs])


def lateness(answers: Iterable[Answer]) -> Values:
    """The client's own delays, in ms."""
    return np.array([(a.recording.sent_ns - a.recording.due_ns) / 1e6 for a in answers])


def summarise(values: Values, weights: Values | None = None) -> Summary | None:
    """A distribution in a few numbers; None if there is no value.

    Args:
        values: In any order.
        weights: How often each counts; None: once each.
    """
    if not values.size:
        return None
    weights = np.ones_like(values) if weights is None else weights
    quantiles = np.quantile(
        values, list(_QUANTILES.values()), weights=weights, method="inverted_cdf"
    )
    found = dict(zip(_QUANTILES, (round(float(each), 3) for each in quantiles), strict=True))
    mean = round(float(np.average(values, weights=weights)), 3)
    count, most = round(float(weights.sum())), round(float(values.max()), 3)
    return Summary(count=count, mean=mean, max=most, **found)


def _known(values: Iterable[float | None]) -> Values:
    return np.array([value for value in values if value is not None])


def _counted(names: Iterable[str]) -> dict[str, int]:
    return {str(name): count for name, count in Counter(names).most_common()}


def _drafted(answers: Iterable[Answer]) -> Speculation:
    drafted = accepted = steps = 0
    by_source: dict[str, tuple[int, int]] = {}
    for found in (answer.speculation for answer in answers if answer.speculation is not None):
        drafted, accepted = drafted + found.drafted, accepted + found.accepted
        steps += found.steps
        for name, (more, taken) in found.by_source.items():
            before = by_source.get(name, (0, 0))
            by_source[name] = before[0] + more, before[1] + taken
    return Speculation(drafted, accepted, steps, by_source)
