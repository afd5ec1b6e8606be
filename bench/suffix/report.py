"""The JSON line of the suffix benchmark: ratios over all data sets flat, then each data set."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.rounds import Json, Summary, put_summary, ratios_of, summary_of
from bench.suffix.datasets import DataSet
from bench.suffix.figures import (
    DRAFTED_SHARE,
    accepted_at_drafted,
    pooled,
    ratio,
)
from bench.suffix.replay import Figures

DEFINITIONS = {
    "ratio_*": "ours / arctic-inference's. Ours at its default threshold against the peer at "
    "vLLM's defaults, drafts of at most 24 tokens on both sides; `*_vs_best`: ours at a low "
    "threshold with drafts of 64 against the peer's setting with most accepted tokens a step, "
    "chosen for each data set from `arctic_grid`",
    "ratio_accepted_per_step": "accepted draft tokens a step, added up over agent and edit sets; "
    "`*_all_sets`: over every set",
    "accepted_at_085_drafted": "accepted tokens a step over the peer's, where our threshold is "
    "such that ours drafts 0.85 of the peer's tokens a step (between swept thresholds, linear); "
    "null: every swept threshold drafts more",
    "ratio_append_time": "time a token written, every call with its Python (what reading the clock "
    "takes is measured and taken off on both sides): ours extend and finish(keep=True), the peer's "
    "add_active_response alone; the pairing that flatters less",
    "ratio_propose_time": "mean time of a call that returns a list of tokens; the same",
    "ratio_bytes_per_token": "growth of the resident set while every conversation, its prompts "
    "included, is kept once as an answer; ours includes its fixed minimum. `*_answers`: only the "
    "recorded answers; `*_requests`: every request with all of its history, so the same text many "
    "times over, which a tree stores once",
    "ratio_log_loss": "mean over drafted tokens of -log(stated probability of what happened): "
    "the stated survival's over the raw vote share's",
    "calibration": "our drafted tokens by what they are part of (`end`: the last 8 of an answer), "
    "without those past the end of an answer: mean log-loss of the stated survival, its mean, the "
    "accepted share, and `excess`: what of the log-loss better survivals would save, by tenths",
    "prompt_32k_ms": "start() with 32,768 tokens of real text, median",
    "propose_growth_1m_to_100m": "p50 of propose() on real continuing requests in an index of "
    "100 M tokens over that of 1 M, both alive, in turn; null in a quick run",
    "hostile_*_p999_us": "the worst text's 99.9th percentile over calls, where a call's time is "
    "the median over repeats of exactly that call: what is slow is slow each time, what another "
    "process interrupts is not. `*_wall_*`: the median over repeats of the plain percentile",
}

Replays = Sequence[Mapping[str, Figures]]
Percentiles = Sequence[Mapping[str, float]]
TokenCost = Callable[[Figures], float]


@dataclass(frozen=True, slots=True)
class Side:
    """One setting of one index, in every round.

    Attributes:
        setting: By data set.
        rounds: Figures by data set, a round each.
        propose_ns: Percentiles over all data sets, a round each.
        token_cost: Nanoseconds a token written.
    """

    setting: Mapping[str, Json]
    rounds: Replays
    propose_ns: Percentiles
    token_cost: TokenCost


@dataclass(frozen=True, slots=True)
class Pairing:
    """Ours and the peer's, to be compared.

    Attributes:
        curve: Ours at several thresholds, figures by data set.
    """

    ours: Side
    theirs: Side
    curve: Replays


def compare(pairing: Pairing, datasets: Sequence[DataSet]) -> Json:
    """Every ratio of a pairing, over the agent and edit sets and over all."""
    names = [dataset.name for dataset in datasets]
    edits = [dataset.name for dataset in datasets if dataset.is_edit]
    found: Json = {}
    for label, group in (("", edits or names), ("_all_sets", names)):
        ours, theirs = (pooled(s.rounds[0], group) for s in (pairing.ours, pairing.theirs))
        for key in ("accepted_per_step", "drafted_per_step"):
            value = ratio(getattr(ours, key), getattr(theirs, key))
            found[f"ratio_{key}{label}"] = value
            found[f"ratio_{key}{label}_spread"] = [
                value,
                value,
            ]  # a salt is given: no round differs
        value = ratio(ours.stated_log_loss, ours.raw_log_loss)
        found[f"ratio_log_loss{label}"] = value
        found[f"ratio_log_loss{label}_spread"] = [value, value]
        found[f"accepted_at_085_drafted{label}"] = _traded(pairing, group)
    by_set = {name: _set_ratio(pairing, name) for name in names}
    known = {name: value for name, value in by_set.items() if value is not None}
    worst = min(known, key=lambda name: known[name], default=None)
    found["worst_dataset_ratio_accepted"] = None if worst is None else known[worst]
    found["worst_dataset"] = worst
    for key, summary in times(pairing, names).items():
        put_summary(found, key, summary)
    return found


def times(pairing: Pairing, names: Sequence[str]) -> dict[str, Summary | None]:
    """Ratios of times over all data sets, round by round."""
    ours, theirs = pairing.ours, pairing.theirs
    mine = [pooled(replay, names) for replay in ours.rounds]
    other = [pooled(replay, names) for replay in theirs.rounds]
    sides = {
        "append_time": (map(ours.token_cost, mine), map(theirs.token_cost, other)),
        "prompt_time": ([f.prompt_token_ns for f in mine], [f.prompt_token_ns for f in other]),
        "propose_time": ([f.propose_call_ns for f in mine], [f.propose_call_ns for f in other]),
        "propose_p50": ([p["p50"] for p in ours.propose_ns], [p["p50"] for p in theirs.propose_ns]),
        "propose_p99": ([p["p99"] for p in ours.propose_ns], [p["p99"] for p in theirs.propose_ns]),
    }
    return {f"ratio_{name}": summary_of(ratios_of(*both)) for name, both in sides.items()}


def headline(default: Json, best: Json) -> Json:
    """The flat keys: the default pairing's, the times of the pairing that is worse for us."""
    found: Json = dict(default)
    for key, value in best.items():
        name = key.removesuffix("_spread")
        found[f"{name}_vs_best{key[len(name) :]}"] = value
    for end in ("", "_spread"):  # of every drafted token, not only of those in edits
        found[f"ratio_log_loss_edit_sets{end}"] = default[f"ratio_log_loss{end}"]
        found[f"ratio_log_loss{end}"] = found.pop(f"ratio_log_loss_all_sets{end}")
    for key in ("ratio_append_time", "ratio_prompt_time", "ratio_propose_time"):
        less = max((default, best), key=lambda pairing: _number(pairing[key]))
        found[key] = less[key]
        found[f"{key}_spread"] = less[f"{key}_spread"]
        found[f"{key}_vs_default"] = default[key]
        found[f"{key}_vs_default_spread"] = default[f"{key}_spread"]
    return found


def describe_set(dataset: DataSet, pairings: Mapping[str, Pairing]) -> Json:
    """One data set: its size, each side's figures, and the ratios of each pairing."""
    found: Json = {
        "is_edit": dataset.is_edit,
        "requests": len(dataset.requests),
        "left_out": dataset.left_out,
        "prompt_tokens": dataset.prompt_tokens,
        "answer_tokens": dataset.answer_tokens,
    }
    for label, pairing in pairings.items():
        ours = pairing.ours.rounds[0][dataset.name]
        theirs = pairing.theirs.rounds[0][dataset.name]
        found[label] = {
            "ours": describe_side(pairing.ours, [dataset.name]),
            "arctic": describe_side(pairing.theirs, [dataset.name]),
            "arctic_setting": pairing.theirs.setting[dataset.name],
            "ratio_accepted_per_step": ratio(ours.accepted_per_step, theirs.accepted_per_step),
            "ratio_drafted_per_step": ratio(ours.drafted_per_step, theirs.drafted_per_step),
            "accepted_at_085_drafted": _traded(pairing, [dataset.name]),
            "ratio_log_loss": ratio(ours.stated_log_loss, ours.raw_log_loss),
        }
    return found


def describe_side(side: Side, names: Sequence[str]) -> Json:
    """One side over some data sets; times are medians over rounds."""
    sums = [pooled(replay, names) for replay in side.rounds]
    first = sums[0]
    return {
        "accepted_per_step": first.accepted_per_step,
        "drafted_per_step": first.drafted_per_step,
        "log_loss": first.stated_log_loss,
        "log_loss_raw": first.raw_log_loss,
        "append_ns": statistics.median(side.token_cost(figures) for figures in sums),
        "prompt_ns": statistics.median(figures.prompt_token_ns for figures in sums),
        "propose_mean_ns": statistics.median(figures.propose_call_ns for figures in sums),
    }


def describe_total(side: Side, names: Sequence[str]) -> Json:
    """The same over all data sets, with percentiles of the calls."""
    percentiles = {
        f"propose_{key}_ns": statistics.median(one[key] for one in side.propose_ns)
        for key in ("p50", "p99", "p999")
    }
    return describe_side(side, names) | percentiles


def _set_ratio(pairing: Pairing, name: str) -> float | None:
    ours, theirs = pairing.ours.rounds[0][name], pairing.theirs.rounds[0][name]
    return ratio(ours.accepted_per_step, theirs.accepted_per_step)


def _traded(pairing: Pairing, group: Sequence[str]) -> float | None:
    theirs = pooled(pairing.theirs.rounds[0], group)
    curve = [pooled(replay, group) for replay in pairing.curve]
    accepted = accepted_at_drafted(curve, DRAFTED_SHARE * theirs.drafted_per_step)
    return None if accepted is None else ratio(accepted, theirs.accepted_per_step)


def _number(value: object) -> float:
    assert isinstance(value, float)
    return value
