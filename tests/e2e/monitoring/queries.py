"""Every query of the chart's dashboards, their variables, and the rules."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from monitoring.__main__ import CHART
from monitoring.rules import ALERTS, RECORDINGS, with_defaults

WINDOW = "2m"
"""Longer than the traffic of the test, so that a rate sees all of it."""

_VALUES = {"$namespace": ".*", "$model": ".*", "$worker": ".*"}
_SELECTOR = re.compile(
    r"""\b(?:gateway_|engine_|vllm:|namespace\w*:)[\w:]*  # of specgate, of vLLM, or recorded
        (?:\{[^}]*\})?""",
    re.VERBOSE,
)
_LEGEND = re.compile(r"\{\{(\w+)\}\}")
_MESSAGE = re.compile(r"\$labels\.(\w+)")
_LABEL_VALUES = re.compile(r"label_values\((?P<selector>.+), (?P<label>\w+)\)")


@dataclass(frozen=True)
class Asked:
    """A query.

    Attributes:
        where: The panel, variable or rule that contains it.
        promql: The query without variables.
        named: Labels that a legend or message names.
    """

    where: str
    promql: str
    named: frozenset[str] = frozenset()

    @property
    def selectors(self) -> list[str]:
        """The selectors of all series that it reads."""
        return sorted(set(_SELECTOR.findall(self.promql)))


def filled(expression: str, *, window: str = WINDOW) -> str:
    """Return a dashboard's query with its variables replaced by values."""
    for variable, value in {**_VALUES, "$window": window}.items():
        expression = expression.replace(variable, value)
    return expression


def dashboards() -> Mapping[str, Any]:
    """Return every dashboard of the chart by its file name."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted((CHART / "dashboards").glob("*.json"))
    }


def all_queries() -> list[Asked]:
    """Return the queries of panels, variables, recordings, and conditions of alerts."""
    return [*_of_panels(), *_of_variables(), *_of_rules()]


def _of_panels() -> Iterator[Asked]:
    for name, dashboard in dashboards().items():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                where = f"{name}: {panel['title']} {target['refId']}"
                named = frozenset(_LEGEND.findall(target["legendFormat"]))
                yield Asked(where, filled(target["expr"]), named)


def _of_variables() -> Iterator[Asked]:
    for name, dashboard in dashboards().items():
        for variable in dashboard["templating"]["list"]:
            found = _LABEL_VALUES.fullmatch(str(variable.get("query", "")))
            if found is not None:
                selector, label = filled(found["selector"]), found["label"]
                query = f"count by ({label}) ({selector}) and on ({label}) {selector}"
                yield Asked(f"{name}: variable {variable['name']}", query)


def _of_rules() -> Iterator[Asked]:
    for recording in RECORDINGS:
        yield Asked(recording.name, with_defaults(recording.query))
    for alert in ALERTS:
        for number, condition in enumerate(alert.conditions, 1):
            # Without the comparison, which a healthy service does not meet. The result has the
            # labels of the first condition.
            message = f"{alert.summary} {alert.description}" if number == 1 else ""
            named = frozenset(_MESSAGE.findall(message))
            yield Asked(f"{alert.name}: condition {number}", condition.query, named)
