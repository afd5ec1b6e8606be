"""What a rule is: a recording, or an alert made of conditions.

Texts may have places `[[name]]` for what the chart's values choose (`thresholds.py`).
"""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["critical", "warning"]
"""critical: wake somebody. warning: look at it on a working day."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A series that Prometheus computes at every evaluation.

    Attributes:
        name: `labels:what:operation`, the form that Prometheus' documentation asks for.
        query: PromQL.
    """

    name: str
    query: str


@dataclass(frozen=True, slots=True)
class Condition:
    """A query and what its value is when something is wrong.

    The query is apart from the test, so that a live check can see that it returns data in a
    service where nothing is wrong.

    Attributes:
        query: PromQL; returns data wherever the metrics exist.
        test: A comparison, such as `> 0.5`.
        joined: How it follows the condition before it: `and`, with labels to match on if need be.
    """

    query: str
    test: str
    joined: str = "and"

    @property
    def expression(self) -> str:
        """The query with its test."""
        return f"({self.query}) {self.test}"


@dataclass(frozen=True, slots=True)
class Alert:
    """A state that a person should know of.

    Attributes:
        name: In Prometheus.
        severity: Who is told, and when.
        lasting: How long the conditions hold before anybody is told, as Prometheus writes it.
        conditions: All of them, joined from left to right.
        summary: One line, may use `$labels`.
        description: What it means and what was measured; may use `$value`.
        anchor: The entry's heading in the runbook, as its link.
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
        """The conditions as one PromQL expression."""
        first, *others = self.conditions
        lines = [first.expression, *(f"{c.joined} {c.expression}" for c in others)]
        return "\n".join(lines)

    @property
    def runbook_url(self) -> str:
        """Where the runbook says what to do."""
        return f"[[runbookUrl]]#{self.anchor}"
