"""The JSON line: the worst cells by figure, then every cell by curve, traffic and conditions."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from bench.gate_sim.bench import Finding, Recovery
from bench.gate_sim.contest import Result, figure
from bench.rounds import Json, Summary, put_summary, summary_of
from engine.simulation.arrays import Floats
from engine.simulation.curve import MOST_SEQUENCES

_WORST_CELLS = 8

DEFINITIONS = {
    "cell": "curve/traffic/conditions: requests at once of a closed loop, arrivals of an open one "
    "over what is served without drafts, a shift, or requests and a wrong start",
    "speed": "tokens per second of a request in the system, waiting ones included: goodput over "
    "clients in a closed loop, the inverse of the time that clients wait in an open one. Tokens "
    "are expected values, and times are without the noise that rules measure. The first fifth of "
    "a run is left out, or 80 tokens of a request if that is more. The policy's own time is left "
    "out",
    "worst_*": "the worst of all cells, open loops and shifts included, wrong starts left to "
    "`worst_start_*`. A cell's figure is its median over seeds; the spread is that cell's",
    "worst_stage_*": "the same of the stages between shifts, with the oracle's own ratio in that "
    "stage. Rules enter a stage with requests at different points of their answers, so a few "
    "hundred steps are not exactly the same work for each",
    "worst_start_*": "of runs whose policy is given a wrong profile at the start, over their first "
    "few hundred steps: speed over that of the same policy with the right profile, and time lost "
    "to it, in steps without drafts",
    "staircase": "a curve whose steps are padded to fixed sizes; `smooth`: any other",
    "best fixed": "the fastest of no drafts and every fixed number of tokens from every source, "
    "chosen for each run in hindsight",
    "regret": "the share of the oracle's speed that is lost",
    "oracle": "knows the true survival of every token (of the head's before its pass only samples, "
    "by request and stretch of text), the true time of this step for every number of tokens, and "
    "its own past speed under the present conditions, without prompts. A token counts less in a "
    "request that is fast anyway. It knows neither which tokens will be accepted nor anything "
    "after this step. In closed loops only",
    "reconverge_steps": "steps after a shift until speed over the oracle's, in windows of ten "
    "steps over all seeds, is within 2 % (or its noise) of its value in the second half of the "
    "stage, or in an earlier stage with the same conditions if that was higher",
    "policy_us_per_step_256": "median over steps with 256 sequences of the policy's own time, "
    "without sources, head, and the choice of sequences for the head, which is C++ in "
    "engine/drafting and Python here",
    "not_simulated": "suffix tokens appended to a head draft, predictions, vLLM's own drafters",
}


def report(findings: Sequence[Finding]) -> Json:
    """Put all findings into one object."""
    steady = [one for one in findings if one.lost_steps is None]
    recoveries = [one.recovery for one in findings if one.recovery is not None]
    by_curve = dict.fromkeys(one.cell.partition("/")[0] for one in steady)
    return {
        "bench": "gate-sim",
        **_worsts(steady),
        **_starts(findings),
        **_worst_stage(recoveries),
        "reconverge_steps_max": max((max(one.steps) for one in recoveries), default=None),
        "policy_us_per_step_256": _policy_us(findings, MOST_SEQUENCES),
        "policy_us_per_step": {
            str(sequences): _policy_us(findings, sequences)
            for sequences in (1, 16, 64, MOST_SEQUENCES)
        },
        "worst_cells": {
            name: {cell: float(np.median(values)) for cell, values in ranked[:_WORST_CELLS]}
            for name, ranked in _ranked(steady).items()
        },
        "worst_by_curve": {
            curve: _worsts([one for one in steady if one.cell.startswith(f"{curve}/")])
            for curve in by_curve
        },
        **{kind: _nested(one for one in findings if one.kind == kind) for kind in _FIGURES},
        "definitions": DEFINITIONS,
    }


_Ranked = list[tuple[str, Floats]]


def _ranked(findings: Iterable[Finding]) -> dict[str, _Ranked]:
    """By figure, cells and their values over seeds, the worst first."""
    found: dict[str, _Ranked] = {
        name: []
        for name in (
            "ratio_to_none",
            "ratio_to_best_fixed",
            "regret",
            "regret_smooth",
            "regret_staircase",
        )
    }
    for one in findings:
        result = one.result
        found["ratio_to_none"].append((one.cell, result.ratio("specgate", "none")))
        best = result.ratio("specgate", result.best_fixed())
        found["ratio_to_best_fixed"].append((one.cell, best))
        if (regret := result.regret()) is not None:
            kind = "regret_staircase" if one.has_edges else "regret_smooth"
            found["regret"].append((one.cell, regret))
            found[kind].append((one.cell, regret))
    return {
        name: _worst_first(values, high=name.startswith("regret")) for name, values in found.items()
    }


def _worst_first(values: _Ranked, *, high: bool) -> _Ranked:
    return sorted(values, key=lambda item: float(np.median(item[1])), reverse=high)


def _worsts(findings: Sequence[Finding]) -> Json:
    found: Json = {}
    for name, ranked in _ranked(findings).items():
        _put_worst(found, f"worst_{name}", ranked)
    return found


def _put_worst(found: Json, name: str, ranked: _Ranked) -> None:
    """The first cell, its median and its spread; None where there is none."""
    found[f"{name}_cell"] = ranked[0][0] if ranked else None
    put_summary(found, name, summary_of(ranked[0][1].tolist()) if ranked else None)


def _starts(findings: Iterable[Finding]) -> Json:
    found: Json = {}
    started = [(one, one.lost_steps) for one in findings if one.lost_steps is not None]
    ratios = [(one.cell, one.result.ratio("specgate", "right-start")) for one, _ in started]
    _put_worst(found, "worst_start_ratio", _worst_first(ratios, high=False))
    lost = [(one.cell, steps) for one, steps in started]
    _put_worst(found, "worst_start_lost_steps", _worst_first(lost, high=True))
    return found


def _worst_stage(recoveries: Iterable[Recovery]) -> Json:
    """The stage with the lowest ratio to none, and what the oracle had in the same."""
    stages = [
        pair for one in recoveries for pair in zip(one.to_none, one.oracle_to_none, strict=True)
    ]
    ours, oracle = min(stages, key=lambda pair: float(np.median(pair[0])), default=(None, None))
    found: Json = {}
    put_summary(found, "worst_stage_ratio_to_none", _summary(ours))
    put_summary(found, "worst_stage_oracle_to_none", _summary(oracle))
    return found


def _contest_json(finding: Finding) -> Json:
    return finding.result.as_json()


def _shift_json(finding: Finding) -> Json:
    recovery = finding.recovery
    if recovery is None:
        return finding.result.as_json()
    return finding.result.as_json() | {
        "reconverge_steps": recovery.steps,
        "ratio_to_none_by_stage": [figure(ratio) for ratio in recovery.to_none],
        "oracle_to_none_by_stage": [figure(ratio) for ratio in recovery.oracle_to_none],
        "regret_by_stage": [figure(regret) for regret in recovery.regret],
    }


def _start_json(finding: Finding) -> Json:
    assert finding.lost_steps is not None
    return {
        "ratio_to_none": figure(finding.result.ratio("specgate", "none")),
        "ratio_to_right_start": figure(finding.result.ratio("specgate", "right-start")),
        "lost_steps": figure(finding.lost_steps),
    }


_FIGURES: Mapping[str, Callable[[Finding], Json]] = {
    "closed": _contest_json,
    "open": _contest_json,
    "shift": _shift_json,
    "start": _start_json,
}


def _nested(findings: Iterable[Finding]) -> Json:
    """Curve, traffic, conditions."""
    found: Json = {}
    for one in findings:
        curve, traffic, conditions = one.cell.split("/")
        figures = _FIGURES[one.kind](one)
        found.setdefault(curve, {}).setdefault(traffic, {})[conditions] = figures
    return found


def _summary(values: Floats | None) -> Summary | None:
    return None if values is None else summary_of(values.tolist())


def _policy_us(findings: Iterable[Finding], sequences: int) -> float | None:
    of: list[Result] = [one.result for one in findings]
    spent = [result.policy_ns[result.policy_ns[:, 0] == sequences, 1] for result in of]
    every = np.concatenate([np.zeros(0), *spent])
    return float(np.median(every)) / 1e3 if len(every) else None
