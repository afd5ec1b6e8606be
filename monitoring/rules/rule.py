"""The two kinds of rules: recordings, and alerts made of conditions.

Texts may contain placeholders `[[name]]` for the chart's values (`thresholds.py`).
"""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["critical", "warning"]
"""critical: page somebody. warning: handle it on a working day."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A series that Prometheus computes at every evaluation.

    Attributes:
        name: `level:metric:operations`, as Prometheus' documentation recommends.
        query: PromQL.
    """

    name: str
    query: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A query and the comparison that is true when something is wrong.

    They are separate so that a test can check that the query returns data from a healthy service.

    Attributes:
        query: PromQL; returns data wherever the metrics exist.
        test: A comparison, such as `> 0.5`.
        joined: Operator that joins it to the previous condition, such as `and on (instance)`.
    """

    query: str
    test: str
    joined: str = "and"

    @property
    def expression(self) -> str:
        """PromQL of the comparison."""
        return f"({self.query}) {self.test}"


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert.

    Attributes:
        name: Its name in Prometheus.
        severity: How urgent it is.
        lasting: How long the conditions must hold, as a Prometheus duration.
        conditions: Joined from left to right.
        summary: One line; may use `$labels`.
        description: Meaning and measured value; may use `$value`.
        anchor: Anchor of its entry in the runbook.
    """

    name: str
    severity: Severity
    lasting: str
    conditions: tuple[Condition, ...]
    summary: str
    description: str
    anchor: str

    @property
    def expression(self) -> str:
        """PromQL of all conditions."""
        first, *others = self.conditions
        lines = [first.expression, *(f"{c.joined} {c.expression}" for c in others)]
        return "\n".join(lines)

    @property
    def runbook_url(self) -> str:
        """URL of its entry in the runbook."""
        return f"[[runbookUrl]]#{self.anchor}"
