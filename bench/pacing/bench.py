"""The pacing benchmark: record, play, attack, then compute.

Arrival patterns are recorded from the real worker (or read from a file), and played again by a fake
one through a gateway with the default profile, with and without pacing in turn.
"""

import gc
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from bench.client import Exchange
from bench.command import look_at_machine
from bench.pacing.crowd import (
    CrowdFigures,
    crowd_figures,
    crowd_patterns,
    measure_crowd,
    measure_idle,
)
from bench.pacing.figures import Played
from bench.pacing.patterns import (
    ANSWER,
    Pattern,
    load_patterns,
    save_patterns,
    synthetic,
)
from bench.pacing.plan import MODES, SEED, Gathering, Mode, Plan
from bench.pacing.plot import draw, most_uneven
from bench.pacing.privacy import ATTACKED, Attack, AttackError, attack
from bench.pacing.prompts import load_prompts
from bench.pacing.record import record_patterns
from bench.pacing.report import Measured, is_recorded, report
from bench.pacing.round import Playback, play_round
from bench.pacing.targets import Stage, find_service, running_service, running_stage
from bench.peers import InstallError
from bench.rounds import Json
from loadtest.progress import say

_SAVED = Path(".bench/pacing")
_IDLE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Choices:
    """Choices of the command line.

    Attributes:
        data: Folder with prompts.
        port: Of a running service to record from; None starts one.
        patterns: Patterns of an earlier run, used instead of recording; None records.
        plot: Where the picture goes; None draws none.
    """

    plan: Plan
    data: Path
    port: int | None
    patterns: Path | None
    plot: Path | None


async def run(choices: Choices) -> Json:
    """Record, play and compute.

    Raises:
        MismatchError: A client assembled another text than the worker sent.
    """
    plan = choices.plan
    machine = await look_at_machine()
    with tempfile.TemporaryDirectory(prefix="specgate-pacing-") as name:
        folder = Path(name)
        recorded = await _recorded(choices, folder)
        tokens_per_chunk = _tokens_per_chunk(recorded)
        made_up = synthetic(tokens=plan.made_up_tokens, copies=plan.copies, seed=SEED)
        crowd = crowd_patterns(plan, tokens_per_chunk)
        save_patterns(folder / "patterns.jsonl", [*recorded, *made_up, *crowd])
        patterns = [pattern for pattern in recorded if pattern.kind != ANSWER] + made_up
        async with running_stage(folder, folder / "patterns.jsonl") as stage:
            rounds = await _rounds(stage, patterns, plan)
            attacked, failure = await _attack(stage, recorded, plan)
        if choices.plot is not None:
            _plot(choices.plot, rounds[-1])
        crowds, crowd_flaws = await _crowds(folder, crowd, plan)
    measured = Measured(rounds, crowds, crowd_flaws, tokens_per_chunk, attacked, failure)
    return report(measured) | {
        "patterns": {"recorded": len(recorded), "made_up": len(made_up)},
        "recorded_by_this_run": choices.patterns is None,
        "seed": SEED,
        "versions": {"aiohttp": metadata.version("aiohttp")},
        "machine": machine.as_json(),
    }


async def _recorded(choices: Choices, folder: Path) -> list[Pattern]:
    plan = choices.plan
    if choices.patterns is not None:
        return load_patterns(choices.patterns)
    prompts = load_prompts(choices.data)
    if choices.port is not None:
        found = await record_patterns(await find_service(choices.port), prompts, plan)
    else:
        say("starting the real service, which takes a minute")
        async with running_service(folder) as service:
            found = await record_patterns(service, prompts, plan)
    path = _SAVED / f"patterns-{plan.prompts}x{plan.runs}.jsonl"
    save_patterns(path, found)
    say(f"{len(found)} recorded patterns are in {path}")
    return found


def _tokens_per_chunk(patterns: Sequence[Pattern]) -> float:
    tokens = sum(pattern.tokens for pattern in patterns)
    return tokens / sum(len(pattern.chunks) for pattern in patterns)


async def _rounds(
    stage: Stage, patterns: Sequence[Pattern], plan: Plan
) -> list[dict[Mode, Playback]]:
    rounds = []
    await play_round(stage, patterns[: plan.at_once], replace(plan, repeats=1), modes=MODES[:1])
    for number in range(plan.rounds):
        begin = number % len(MODES)
        modes = [*MODES[begin:], *MODES[:begin]]
        rounds.append(await play_round(stage, patterns, plan, modes=modes))
        gc.collect()  # outside the measured time
        flaws = sum(len(playback.flaws) for playback in rounds[-1].values())
        say(f"round {number + 1}/{plan.rounds} of all patterns: {flaws} streams failed")
    return rounds


async def _crowds(
    folder: Path, patterns: Sequence[Pattern], plan: Plan
) -> tuple[dict[str, list[dict[Mode, CrowdFigures | None]]], list[str]]:
    found: dict[str, list[dict[Mode, CrowdFigures | None]]] = defaultdict(list)
    flaws: list[str] = []
    for number in range(plan.crowd_rounds):
        for name, gathering in plan.gatherings.items():
            async with running_stage(
                folder, folder / "patterns.jsonl", processes=gathering.processes
            ) as stage:
                each, new_flaws = await _gather(stage, patterns, plan, gathering)
            found[name].append(each)
            flaws += new_flaws
            smooth = each["smooth"]
            cores = "none" if smooth is None else f"{smooth.cores:.2f} cores"
            say(f"crowd {number + 1}/{plan.crowd_rounds}, {name} streams: {cores}")
    return found, flaws


async def _gather(
    stage: Stage, patterns: Sequence[Pattern], plan: Plan, gathering: Gathering
) -> tuple[dict[Mode, CrowdFigures | None], list[str]]:
    each: dict[Mode, CrowdFigures | None] = {}
    flaws: list[str] = []
    idle_cores = await measure_idle(stage, _IDLE_SECONDS)
    for mode in gathering.modes:
        readings = await measure_crowd(stage, patterns, plan, streams=gathering.streams, mode=mode)
        each[mode] = crowd_figures(readings, idle_cores=idle_cores)
        flaws += readings.playback.flaws
        del readings
        gc.collect()  # outside the measured time
    return each, flaws


async def _attack(
    stage: Stage, patterns: Sequence[Pattern], plan: Plan
) -> tuple[Attack | None, str | None]:
    try:
        return await attack(stage, patterns, plan), None
    except (AttackError, InstallError) as error:
        say(f"no eavesdropper: {error}")
        return None, str(error)


def shown_streams(last_round: Mapping[Mode, Playback]) -> dict[str, tuple[Played, Exchange]]:
    """One recorded stream in each mode that the eavesdropper is given; none if all failed."""
    recorded = [one for one in last_round["off"].good if is_recorded(one.pattern.kind)]
    if not recorded:
        return {}
    number = list(last_round["off"].played).index(most_uneven(recorded))
    found = {}
    for name, mode in ATTACKED.items():
        playback = last_round[mode]
        one = playback.played[number]
        if one is not None:
            found[name] = one, playback.captures[number]
    return found


def _plot(path: Path, last_round: dict[Mode, Playback]) -> None:
    shown = shown_streams(last_round)
    if not shown:
        say("no recorded stream was good: there is no picture")
        return
    draw(path, shown)
    say(f"the picture is in {path}")
