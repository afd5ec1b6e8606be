"""Measures both sides in an order that keeps the comparison fair.

Runs that only count (thresholds, the peer's grid) use both sides at once; timed runs use one side
at a time, in turn.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from bench.rounds import Json, put_summary, ratios_of, summary_of
from bench.suffix.child import Child, Sides
from bench.suffix.datasets import DataSet
from bench.suffix.figures import pooled
from bench.suffix.plan import (
    OUR_DEFAULT,
    OUR_DEFAULT_LONG,
    OUR_LONG,
    PROMPT_TOKENS,
    ROWS,
    SALT,
    VLLM_DEFAULT,
    ArcticSetting,
    OurSetting,
    Plan,
)
from bench.suffix.replay import Figures
from bench.suffix.report import (
    DEFINITIONS,
    Pairing,
    Side,
    TokenCost,
    compare,
    describe_set,
    describe_total,
    headline,
)
from loadtest.progress import say

Replay = Mapping[str, Figures]
Settings = Mapping[str, Json]

_PROMPT_TIMES = 15


def measure(plan: Plan, datasets: Sequence[DataSet], sides: Sides) -> Json:
    """Run all of it.

    Raises:
        ChildError: A side failed.
    """
    with sides.start_ours() as ours, sides.start_arctic() as arctic:
        found = _compared(plan, datasets, ours, arctic)
        say("calibration by kind of token")
        found["calibration"] = ours.ask("calibration", setting=OUR_LONG.as_json())
        found |= _prompts(ours, arctic)
        found |= _rows(ours, arctic)
    found |= _memory(plan, sides)
    found |= _scale(plan, sides)
    found |= _hostile(plan, sides)
    return found | {"rounds": plan.rounds, "seeds": {"salt": SALT}, "definitions": DEFINITIONS}


def _compared(plan: Plan, datasets: Sequence[DataSet], ours: Child, arctic: Child) -> Json:
    names = [dataset.name for dataset in datasets]
    with ThreadPoolExecutor(2) as pool:  # nothing of this is timed
        sweeping = pool.submit(_sweep, plan, names, ours)
        grid = pool.submit(_grid, plan, names, arctic).result()
        curves = sweeping.result()
    best = {name: max(grid, key=lambda s: grid[s][name].accepted_per_step) for name in names}
    settings: dict[str, tuple[Child, Settings]] = {
        "ours_default": (ours, {name: OUR_DEFAULT.as_json() for name in names}),
        "arctic_default": (arctic, {name: VLLM_DEFAULT.as_json() for name in names}),
        "ours_long": (ours, {name: OUR_LONG.as_json() for name in names}),
        "arctic_best": (arctic, {name: best[name].as_json() for name in names}),
    }
    rounds = _rounds(plan, settings)
    sides = {
        key: _side(rounds[key], settings[key][1], _stored if child is ours else _appended)
        for key, (child, _) in settings.items()
    }
    pairings = {
        "default": Pairing(sides["ours_default"], sides["arctic_default"], curves[24]),
        "best": Pairing(sides["ours_long"], sides["arctic_best"], curves[64]),
    }
    found = headline(*(compare(pairing, datasets) for pairing in pairings.values()))
    return found | {
        "datasets": {dataset.name: describe_set(dataset, pairings) for dataset in datasets},
        "totals": {key: describe_total(side, names) for key, side in sides.items()},
        "ours_default_with_drafts_of_64": _quality(
            _replayed(ours, _everywhere(OUR_DEFAULT_LONG, names)), datasets
        ),
        "settings": {"ours_default": OUR_DEFAULT.as_json(), "ours_long": OUR_LONG.as_json()},
        "arctic_default": VLLM_DEFAULT.as_json(),
        "arctic_grid": [
            setting.as_json() | _quality(replay, datasets) for setting, replay in grid.items()
        ],
        "curves": _curves(plan, curves, datasets),
    }


def _stored(figures: Figures) -> float:
    return figures.stored_token_ns


def _appended(figures: Figures) -> float:
    return figures.append_token_ns


def _sweep(plan: Plan, names: Sequence[str], ours: Child) -> dict[int, list[Replay]]:
    curves = {}
    for most, survivals in plan.survivals.items():
        say(f"ours: {len(survivals)} thresholds with drafts of at most {most}")
        setting = OurSetting(most, 0.0)
        curves[most] = [
            _replayed(ours, _everywhere(replace(setting, min_survival=survival), names))
            for survival in survivals
        ]
    return curves


def _grid(plan: Plan, names: Sequence[str], arctic: Child) -> dict[ArcticSetting, Replay]:
    found = {}
    for setting in plan.grid:
        found[setting] = _replayed(arctic, _everywhere(setting, names))
        total = pooled(found[setting], names)
        say(f"arctic: {setting}: {total.accepted_per_step:.3f} accepted a step")
    return found


def _everywhere(setting: OurSetting | ArcticSetting, names: Sequence[str]) -> Settings:
    return {name: setting.as_json() for name in names}


def _replayed(child: Child, settings: Settings) -> Replay:
    return _figures(child.ask("replay", settings=settings))


def _figures(answer: Json) -> Replay:
    sets = answer["sets"]
    assert isinstance(sets, dict)
    return {name: Figures(**counts) for name, counts in sets.items()}


def _rounds(plan: Plan, settings: Mapping[str, tuple[Child, Settings]]) -> dict[str, list[Json]]:
    answers: dict[str, list[Json]] = {key: [] for key in settings}
    for number in range(plan.rounds):
        for key, (child, by_set) in settings.items():
            answers[key].append(child.ask("replay", settings=by_set))
            total = pooled(_figures(answers[key][-1]), list(by_set))
            say(
                f"round {number + 1}/{plan.rounds}: {key}: {total.accepted_per_step:.3f} accepted "
                f"of {total.drafted_per_step:.3f} drafted a step, {total.append_token_ns:.0f} ns "
                f"a token, {total.propose_call_ns:.0f} ns a draft"
            )
    return answers


def _side(answers: Sequence[Json], settings: Settings, token_cost: TokenCost) -> Side:
    percentiles = []
    for answer in answers:
        assert isinstance(answer["propose_ns"], dict)
        percentiles.append(answer["propose_ns"])
    return Side(settings, [_figures(answer) for answer in answers], percentiles, token_cost)


def _quality(replay: Replay, datasets: Sequence[DataSet]) -> Json:
    edits = pooled(replay, [dataset.name for dataset in datasets if dataset.is_edit])
    every = pooled(replay, [dataset.name for dataset in datasets])
    return {
        "accepted_per_step": edits.accepted_per_step,
        "drafted_per_step": edits.drafted_per_step,
        "accepted_per_step_all_sets": every.accepted_per_step,
        "drafted_per_step_all_sets": every.drafted_per_step,
    }


def _curves(plan: Plan, curves: Mapping[int, list[Replay]], datasets: Sequence[DataSet]) -> Json:
    return {
        str(most): [
            {"min_survival": survival} | _quality(replay, datasets)
            for survival, replay in zip(plan.survivals[most], replays, strict=True)
        ]
        for most, replays in curves.items()
    }


def _prompts(ours: Child, arctic: Child) -> Json:
    wanted: dict[str, object] = {"tokens": PROMPT_TOKENS, "times": _PROMPT_TIMES}
    say(f"a prompt of {PROMPT_TOKENS} tokens")
    mine = ours.ask("prompt", setting=OUR_DEFAULT.as_json(), **wanted)
    other = arctic.ask("prompt", setting=VLLM_DEFAULT.as_json(), **wanted)
    return {
        "prompt_32k_ms": _p50(mine["start_ns"]) / 1e6,
        "prompt_32k": {"ours": mine, "arctic": other},
    }


def _rows(ours: Child, arctic: Child) -> Json:
    say(f"drafts for {ROWS} live requests at once")
    mine = ours.ask("rows", setting=OUR_DEFAULT.as_json(), rows=ROWS)
    other = arctic.ask("rows", setting=VLLM_DEFAULT.as_json(), rows=ROWS)
    return {"propose_many_row_ns": mine["row_ns"], "rows_64": {"ours": mine, "arctic": other}}


def _memory(plan: Plan, sides: Sides) -> Json:
    found: Json = {}
    last: Json = {}
    for corpus in ("answers", "conversations", "requests"):
        ratios = []
        for number in range(plan.memory_rounds):
            say(f"memory: {corpus}, kept as answers, {number + 1}/{plan.memory_rounds}")
            with sides.start_ours() as ours:
                mine = _a_token(ours.ask("memory", setting=OUR_DEFAULT.as_json(), corpus=corpus))
            with sides.start_arctic() as arctic:
                setting = VLLM_DEFAULT.as_json()
                other = _a_token(arctic.ask("memory", setting=setting, corpus=corpus))
            key = "resident_bytes_per_token"
            ratios.append(_number(mine[key]) / _number(other[key]))
        last[corpus] = {"ours": mine, "arctic": other}
        key = "ratio_bytes_per_token" + ("" if corpus == "conversations" else f"_{corpus}")
        put_summary(found, key, summary_of(ratios))
    return found | {"memory": last}


def _a_token(answer: Json) -> Json:
    tokens = _number(answer["tokens"])
    per_token = {
        f"{key}_per_token": _number(answer[key]) / tokens
        for key in ("resident_bytes", "claimed_bytes")
    }
    return answer | per_token


def _scale(plan: Plan, sides: Sides) -> Json:
    say(f"scale: {', '.join(f'{size // 1_000_000} M' for size in plan.scale_sizes)} tokens")
    with sides.start_ours() as ours:
        found = ours.ask(
            "scale",
            sizes=list(plan.scale_sizes),
            rounds=plan.scale_rounds,
            capacity_bytes=plan.scale_capacity_bytes,
        )
    sizes, p50s = found["sizes"], found["rounds"]
    assert isinstance(sizes, dict)
    assert isinstance(p50s, dict)
    small, large = "1000000", "100000000"
    flat: Json = {"propose_growth_1m_to_100m": None, "bytes_at_100m": None}
    for size in (size for size in sizes if size != small):
        growth = summary_of(ratios_of(p50s[size], p50s[small]))
        put_summary(flat, f"propose_growth_1m_to_{size[:-6]}m", growth)
    if large in sizes:
        flat["bytes_at_100m"] = sizes[large]["bytes"]
        flat["resident_bytes_at_100m"] = sizes[large]["resident_bytes"]
    return flat | {"scale": found}


def _hostile(plan: Plan, sides: Sides) -> Json:
    say(f"hostile texts of {plan.hostile_tokens} tokens, {plan.hostile_repeats} times")
    with sides.start_ours() as ours:
        found = ours.ask(
            "hostile",
            tokens=plan.hostile_tokens,
            repeats=plan.hostile_repeats,
            every=plan.hostile_every,
            salt=SALT,
        )
    worst = found["worst"]
    assert isinstance(worst, dict)
    flat = {f"hostile_{key}": value for key, value in worst.items()}
    for key in ("p999_us", "p999_wall_us"):  # whatever the threshold
        each = (f"hostile_propose_{key}", f"hostile_propose_default_{key}")
        flat[each[0]] = max(flat[name] for name in each)
    return flat | {"hostile": found}


def _p50(distribution: object) -> float:
    assert isinstance(distribution, dict)
    return float(distribution["p50"])


def _number(value: object) -> float:
    assert isinstance(value, (int, float))
    return float(value)
