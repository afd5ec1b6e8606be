"""The JSON line of the head benchmark: acceptance, cost, speed, and what explains them."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from bench.engine.counts import pooled
from bench.engine.methods import NONE
from bench.head.acceptance import Acceptance
from bench.head.measure import Cell, HeadFigures
from bench.head.methods import ALWAYS, HEAD
from bench.head.plan import KINDS, POSITIONS
from bench.rounds import Json, put_summary, ratios_of, summary_of

DEFINITIONS = {
    "acceptance_ratio": f"accepted tokens over {POSITIONS} for each step that had room for a draft "
    "and its bonus; greedy answers of `head_always` (drafts cost nothing, so it drafts in every "
    "step). Tokens that its policy still cut, below 1 % likely, count as rejected; "
    "`verified_ratio` is the share that it left. length: tokens a step, bonus included; "
    "by_position: share of steps that accepted that token and all before it. chat: prompts of any "
    "category without a recorded answer; code and math: prompts of these categories with one",
    "draft_cost_share": f"mean time of a head pass ({POSITIONS} tokens, one sequence, in "
    "`head_always`) over mean time of a whole decoding step of `none`, in the same round at batch "
    "1; median and [min, max] over rounds",
    "speed_ratio_chat": "output tokens a second of `head` (the profile's prices, the head its only "
    "source) over those of `none`, in the same round at batch 1, prompts included; median and "
    "[min, max] over rounds. Every round has other prompts, so a spread holds their differences "
    "too. speed_ratio_chat_always: the same of `head_always`; speed_ratio_to_always: `head` over "
    "`head_always`",
    "at_prices": "of `head` over all rounds: acceptance ratio and length of what it drafted, and "
    "the share of steps in which it drafted",
    "left_out": "kinds and rounds of a quick run for which there was no time; [] if none",
    "idle_cores": "largest CPU use, in cores, of all workers that were not being measured",
}

Rounds = Sequence[Mapping[str, Cell]]


def report(figures: HeadFigures) -> Json:
    """Compute every figure; null where there was nothing to measure."""
    rounds = figures.rounds
    found: Json = {"bench": "head"}
    for kind in KINDS:
        found[f"acceptance_ratio_{kind}"] = figures.acceptance.get(kind, Acceptance()).ratio
    _put_ratio(found, "draft_cost_share", *_paired(rounds, (ALWAYS, _pass), (NONE, _step)))
    _put_ratio(found, "speed_ratio_chat", *_paired(rounds, (HEAD, _speed), (NONE, _speed)))
    _put_ratio(found, "speed_ratio_chat_always", *_paired(rounds, (ALWAYS, _speed), (NONE, _speed)))
    _put_ratio(found, "speed_ratio_to_always", *_paired(rounds, (HEAD, _speed), (ALWAYS, _speed)))
    methods = list(rounds[0]) if rounds else []
    return {
        **found,
        "acceptance": {kind: _acceptance(one) for kind, one in figures.acceptance.items()},
        "at_prices": _at_prices(rounds),
        "draft_ms": _median_ms(rounds, ALWAYS, _pass),
        "step_ms": {name: _median_ms(rounds, name, _step) for name in sorted(methods)},
        "tokens_per_second": {
            name: statistics.median(_speed(cells[name]) for cells in rounds)
            for name in sorted(methods)
        },
        "rounds": len(rounds),
        "left_out": figures.left_out,
        "idle_cores": figures.idle_cores,
        "definitions": DEFINITIONS,
    }


def _pass(cell: Cell) -> float:
    return cell.head_pass.mean


def _step(cell: Cell) -> float:
    return cell.step.mean


def _speed(cell: Cell) -> float:
    return cell.counts.tokens_per_second


def _paired(
    rounds: Rounds, *sides: tuple[str, Callable[[Cell], float]]
) -> tuple[Sequence[float], ...]:
    """For each side its figure of each round."""
    return tuple([figure(cells[method]) for cells in rounds] for method, figure in sides)


def _put_ratio(found: Json, name: str, ours: Sequence[float], theirs: Sequence[float]) -> None:
    put_summary(found, name, summary_of(ratios_of(ours, theirs)))


def _median_ms(rounds: Rounds, method: str, figure: Callable[[Cell], float]) -> float | None:
    if not rounds:
        return None
    return 1e3 * statistics.median(figure(cells[method]) for cells in rounds)


def _acceptance(found: Acceptance) -> Json:
    return {
        "ratio": found.ratio,
        "length": found.length,
        "by_position": found.by_position,
        "steps": found.steps,
        "verified_ratio": found.verified_ratio,
        "requests": found.requests,
        "tokens": found.tokens,
    }


def _at_prices(rounds: Rounds) -> Json:
    total = pooled([cells[HEAD].counts for cells in rounds])
    steps = total.steps.total() - total.requests  # without those of the prompts
    return {
        "ratio": total.ratio,
        "length": total.length,
        "drafted_step_ratio": total.spec_steps / steps if steps > 0 else None,
    }
