"""The JSON line: speeds, ratios, and what explains them."""

import statistics
from collections.abc import Mapping, Sequence

from bench.engine.counts import Counts, pooled
from bench.engine.methods import NONE
from bench.gate.measure import BySetting, Figures
from bench.gate.settings import FIXED, GATE
from bench.rounds import Json, Summary, put_summary, ratios_of, summary_of

LEAST_TO_NONE, LEAST_TO_BEST_FIXED = 0.99, 0.97

DEFINITIONS = {
    "tokens_per_second": "output tokens of all clients while all of them were busy: from the first "
    "request until a client had none left to send, without prefill. Median over rounds",
    "ratio_to_none": "tokens a second with the gate over those of a worker without speculation in "
    "the same round; median and [min, max] over rounds. Each round has other prompts",
    "ratio_to_best_fixed": "the same over the fixed setting (no drafts, or always up to so many "
    "tokens) with the highest median, chosen in hindsight for each concurrency "
    "and workload: this favours a setting that was fast by chance",
    "worst_*": "the lowest median; the spread is that of the same concurrency and workload",
    "missed_*": "concurrencies and workloads of which every round is below the required ratio: "
    f"{LEAST_TO_NONE} of none, {LEAST_TO_BEST_FIXED} of the best fixed setting",
    "mixed": "equally many prompts of chat, code, edits and agents, greedy",
    "creative": "chat at temperature 1, no seed; `ignore_eos` makes answers equally long",
    "own_cpu_us_per_step": "mean CPU time of our own code a step of the whole batch, with the gate",
    "left_out": "'clients workload round' for which there was no time; [] if none",
    "idle_cores": "largest CPU use, in cores, of all workers that were not being measured",
}


def report(figures: Figures) -> Json:
    """Compute every figure; no ratio where nothing was measured."""
    flat = {
        f"{clients} {workload}": found
        for clients, workloads in figures.counts.items()
        for workload, found in workloads.items()
    }
    to_none = {name: _compared(found, NONE) for name, found in flat.items()}
    to_best = {name: _compared(found, best_fixed(found)) for name, found in flat.items()}
    return {
        "bench": "gate",
        **_ratio("worst_ratio_to_none", _worst(to_none)),
        **_ratio("worst_ratio_to_best_fixed", _worst(to_best)),
        "missed_to_none": _missed(to_none, LEAST_TO_NONE),
        "missed_to_best_fixed": _missed(to_best, LEAST_TO_BEST_FIXED),
        "by_concurrency": {
            str(clients): {workload: _cell(found) for workload, found in workloads.items()}
            for clients, workloads in figures.counts.items()
        },
        "left_out": figures.left_out,
        "idle_cores": figures.idle_cores,
        "definitions": DEFINITIONS,
    }


def speeds_of(figures: Figures) -> dict[str, dict[int, dict[str, float]]]:
    """Return tokens a second by workload, concurrency and setting."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for clients, workloads in figures.counts.items():
        for workload, cell in workloads.items():
            found.setdefault(workload, {})[clients] = _speeds(cell)
    return found


def best_fixed(found: Mapping[str, Sequence[Counts]]) -> str:
    """The fixed setting with the highest median; no drafts are one of them."""
    fixed = [name for name in found if name == NONE or name.startswith(f"{FIXED}-")]
    return max(fixed, key=lambda name: _speed(found[name]))


def _cell(found: BySetting) -> Json:
    best = best_fixed(found)
    gate = pooled(found[GATE])
    return {
        **_ratio("ratio_to_none", _compared(found, NONE)),
        **_ratio("ratio_to_best_fixed", _compared(found, best)),
        "best_fixed": best,
        "tokens_per_second": _speeds(found),
        "acceptance_ratio": {name: pooled(rounds).ratio for name, rounds in found.items()},
        "own_cpu_us_per_step": gate.own_us_per_step,
    }


def _compared(found: BySetting, other: str) -> Summary | None:
    ours, theirs = ([counts.tokens_per_second for counts in found[name]] for name in (GATE, other))
    return summary_of(ratios_of(ours, theirs))


def _ratio(name: str, summary: Summary | None) -> Json:
    found: Json = {}
    put_summary(found, name, summary)
    return found


def _worst(summaries: Mapping[str, Summary | None]) -> Summary | None:
    known = [summary for summary in summaries.values() if summary is not None]
    return min(known, key=lambda summary: summary.median, default=None)


def _missed(summaries: Mapping[str, Summary | None], least: float) -> list[str]:
    return [name for name, summary in summaries.items() if summary and summary.high < least]


def _speeds(found: BySetting) -> dict[str, float]:
    return {name: _speed(rounds) for name, rounds in found.items()}


def _speed(rounds: Sequence[Counts]) -> float:
    return statistics.median(counts.tokens_per_second for counts in rounds)
