"""The report as one self-contained HTML page: no scripts, fonts or images."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from html import escape

from loadtest.load.charts import Points, dot_chart, line_chart, shares_below
from loadtest.load.figures import Figures, Summary, first_tokens, gaps
from loadtest.load.report import Json, Run
from loadtest.load.run import Outcome

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1360px; margin: 2em auto; padding: 0 1em; }
figure { display: inline-block; width: min(640px, 100%); margin: 0 1em 1em 0; }
figcaption { font-weight: 600; }
svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
svg .grid { stroke: currentColor; stroke-opacity: .15; }
table { border-collapse: collapse; margin-bottom: 1.5em; }
td, th { padding: .2em .8em; text-align: right; border-bottom: 1px solid #8884; }
td:first-child, th:first-child { text-align: left; }
pre { overflow: auto; max-height: 24em; font-size: 12px; }
"""
_LATENCIES = {
    "first_token_ms": "first token",
    "gap_ms": "gap between tokens",
    "per_token_ms": "per token",
    "total_ms": "whole answer",
    "late_ms": "late (our own client)",
}


def page_of(run: Run, report: Json) -> str:
    """The page.

    Args:
        run: What was measured.
        report: Shown as it is at the end.
    """
    everything = run.of_all()
    title = f"Load test: {run.name}"
    sections = [
        f"<h1>{escape(title)}</h1><p>{escape(run.scenario.about)}</p>",
        f"<p>{escape(_said(run))}</p>",
        _outcome_table(run, everything),
        _latency_table(everything),
        *_charts(run),
        f"<h2>All figures</h2><pre>{escape(json.dumps(report, indent=1))}</pre>",
    ]
    head = f"<meta charset='utf-8'><title>{escape(title)}</title><style>{_STYLE}</style>"
    return (
        f"<!doctype html><html lang='en'><head>{head}</head><body>{''.join(sections)}</body></html>"
    )


def _said(run: Run) -> str:
    objective = run.scenario.objective
    prompts = "made up" if run.data is None else "read from a folder"
    return (
        f"{run.server.model} at {run.url}; {run.scenario.arrivals.process} arrivals, "
        f"seed {run.seed}, prompts {prompts}, {run.seconds:.0f} s. Latency counts "
        f"from when a request was due. Good enough: first token within "
        f"{objective.first_token_ms:g} ms and {objective.per_token_ms:g} ms per token."
    )


def _outcome_table(run: Run, everything: Figures) -> str:
    groups = {**run.by_traffic(), "all": everything}
    rows = [
        [
            name,
            str(figures.requests),
            ", ".join(f"{count} {ending}" for ending, count in figures.endings.items()),
            _number(figures.completed_per_second),
            _number(figures.goodput_per_second),
            _number(figures.goodput_ratio),
            _number(figures.output_tokens_per_second),
            _number(figures.acceptance_ratio),
            _number(figures.acceptance_length),
        ]
        for name, figures in groups.items()
    ]
    head = ["clients", "requests", "ended", "done/s", "goodput/s", "goodput ratio", "tokens/s"]
    return _table([*head, "acceptance ratio", "acceptance length"], rows)


def _latency_table(figures: Figures) -> str:
    names = [field.name for field in fields(Summary)]
    rows = []
    for name, shown in _LATENCIES.items():
        summary = getattr(figures, name)
        cells = [""] * len(names)
        if summary is not None:
            cells = [_number(getattr(summary, column)) for column in names]
        rows.append([f"{shown}, ms", *cells])
    return _table(["latency", *names], rows)


def _charts(run: Run) -> list[str]:
    measured = {
        traffic.name: [o for o in run.outcomes if o.arrival.traffic.name == traffic.name]
        for traffic in run.scenario.mix
        if traffic.is_measured
    }
    first = {name: first_tokens(o.answer for o in group) for name, group in measured.items()}
    between = {name: gaps(o.answer for o in group) for name, group in measured.items()}
    shares = "share of values at or below"
    charts = {
        "First token": line_chart(
            {name: shares_below(values.tolist()) for name, values in first.items()},
            x="ms",
            y=shares,
            logarithmic_x=True,
        ),
        "Gap between tokens, each token once": line_chart(
            {name: shares_below(*map(list, weighted)) for name, weighted in between.items()},
            x="ms",
            y=shares,
            logarithmic_x=True,
        ),
        "First token over the run": dot_chart(
            {name: _over_time(run, group) for name, group in measured.items()},
            x="due, seconds after the start",
            y="first token, ms",
        ),
        "Requests under way": line_chart(
            {"all": _under_way(run)}, x="seconds after the start", y="requests"
        ),
    }
    if len(run.scenario.arrivals.stages) > 1:
        charts["Goodput by rate"] = line_chart(
            _by_rate(run), x="arrivals per second", y="per second"
        )
    return [
        f"<figure><figcaption>{escape(name)}</figcaption>{chart}</figure>"
        for name, chart in charts.items()
    ]


def _over_time(run: Run, outcomes: Sequence[Outcome]) -> Points:
    begin_ns = _begin_ns(run)
    found = [
        ((o.answer.recording.due_ns - begin_ns) / 1e9, first)
        for o in outcomes
        if (first := o.answer.first_text_ms()) is not None
    ]
    return sorted(found)


def _under_way(run: Run) -> Points:
    """Number of running requests: one more when a request is due, one less at its end."""
    begin_ns = _begin_ns(run)
    changes = [(o.answer.recording.due_ns, 1) for o in run.outcomes]
    changes += [(o.answer.ended_ns, -1) for o in run.outcomes]
    points, count = [], 0
    for at_ns, change in sorted(changes):
        seconds = (at_ns - begin_ns) / 1e9
        points += [(seconds, float(count)), (seconds, float(count + change))]
        count += change
    return points


def _by_rate(run: Run) -> Mapping[str, Points]:
    rates = [stage.requests_per_second for stage in run.scenario.arrivals.stages]
    found = sorted(zip(rates, run.by_stage(), strict=True), key=lambda pair: pair[0])
    return {
        "goodput": [(rate, figures.goodput_per_second) for rate, figures in found],
        "done": [(rate, figures.completed_per_second) for rate, figures in found],
    }


def _begin_ns(run: Run) -> int:
    return min((o.answer.recording.due_ns for o in run.outcomes), default=0)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    lines += [
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    ]
    return f"<table>{''.join(lines)}</table>"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
