"""Async scheduling: waiting for the tokens of each step against the choice that the worker makes.

Where a head drafts on the device, vLLM's adaptive verification is simulated beside ours.

A step that waits has a pause before it, in which drafts are made and the step is launched. How long
it is on a GPU was not measured: `PAUSE` is an assumption.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from bench.gate_sim.adaptive import Adaptive
from bench.gate_sim.bench import library_of
from bench.gate_sim.contest import figure
from bench.gate_sim.plan import CHAT_TRAFFIC, CREATIVE_TRAFFIC, CURVES, EDIT_TRAFFIC, Traffic
from bench.rounds import Json
from engine.policy import Launch
from engine.simulation.arrays import Flags, Floats, Ints
from engine.simulation.course import Stage, course_of
from engine.simulation.curve import load_curve
from engine.simulation.engine import AllWait, LaunchRule, Pause, World, simulate
from engine.simulation.rule import Rule
from engine.simulation.specgate import Specgate

PAUSE = Pause(step=0.001, sequence=0.000005)
_WARM_UP_TOKENS = 400
"""Of each request; a choice is tried several times by then."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Which cells are simulated, and for how long.

    Attributes:
        tokens_a_seat: Of a run, for each request at once.
    """

    curves: Sequence[str]
    traffics: Sequence[Traffic]
    loads: Sequence[int]
    seeds: int
    tokens_a_seat: int


FULL = LaunchPlan(
    ("gpu-1b-captured", "gpu-8b-captured", "gpu-8b"),
    (CHAT_TRAFFIC, EDIT_TRAFFIC, CREATIVE_TRAFFIC),
    (1, 8, 64, 256),
    seeds=3,
    tokens_a_seat=4_000,
)
QUICK = LaunchPlan(
    ("gpu-1b-captured", "gpu-8b"),
    (CHAT_TRAFFIC, EDIT_TRAFFIC),
    (1, 64),
    seeds=2,
    tokens_a_seat=2_000,
)


class AllAhead(AllWait):
    """Every step is launched ahead."""

    def choose(self, sequences: Ints) -> Flags:
        """Return True for each lane."""
        return np.ones(len(sequences), dtype=np.bool_)


class Launches:
    """The worker's own choice, for each lane."""

    def __init__(self, lanes: int) -> None:
        self._lanes = [Launch() for _ in range(lanes)]

    def choose(self, sequences: Ints) -> Flags:
        """See `LaunchRule`."""
        return np.array(
            [lane.choose(int(n)) for lane, n in zip(self._lanes, sequences, strict=True)]
        )

    def observe(self, ahead: Flags, sequences: Ints, tokens: Ints, seconds: Floats) -> None:
        """See `LaunchRule`."""
        for at, lane in enumerate(self._lanes):
            lane.observe(
                ahead=bool(ahead[at]),
                sequences=int(sequences[at]),
                tokens=int(tokens[at]),
                seconds=float(seconds[at]),
            )

    @property
    def share(self) -> float:
        """Of the steps, those that were launched ahead."""
        ahead = sum(lane.ahead for lane in self._lanes)
        return ahead / (ahead + sum(lane.waiting for lane in self._lanes))


def compare_launches(plan: LaunchPlan, say: Callable[[str], None]) -> Json:
    """Simulate each cell with both.

    Returns:
        `worst` and `best`: The choice's speed over that of always waiting, medians over seeds; then
        each cell. In those `on device` the head drafts there; in others not at all ahead. There,
        `adaptive` is the same ratio of vLLM's adaptive verification with every step ahead.
    """
    cells: dict[str, Json] = {}
    for curve, traffic, load in product(plan.curves, plan.traffics, plan.loads):
        for on_device in (False, True):
            name = f"{curve}/{traffic.name}/{load}" + ("/on device" if on_device else "")
            cells[name] = _compare(plan, curve, traffic, load, on_device=on_device)
            say(f"launch {name}: {cells[name]}")
    ratios = {name: cell["to_waiting"]["median"] for name, cell in cells.items()}
    worst, best = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    return {
        "worst": {"cell": worst, "ratio": ratios[worst]},
        "best": {"cell": best, "ratio": ratios[best]},
        "cells": cells,
    }


def _compare(plan: LaunchPlan, curve: str, traffic: Traffic, load: int, *, on_device: bool) -> Json:
    course = course_of([Stage(plan.tokens_a_seat, load)])
    library = library_of(traffic, plan.seeds, ())
    world = World(load_curve(CURVES / f"{curve}.yaml"), library, course, PAUSE)
    chosen = Launches(plan.seeds)

    def speed(rule: Rule, launch: LaunchRule) -> Floats:
        record = simulate(world, rule, np.arange(plan.seeds), launch)
        return record.speed(_WARM_UP_TOKENS * load, course.tokens)

    def gate() -> Specgate:
        return Specgate(world, plan.seeds, traffic.source, on_device=on_device)

    waiting = speed(gate(), AllWait())
    found = {
        "to_waiting": figure(speed(gate(), chosen) / waiting),
        "ahead_share": round(chosen.share, 3),
    }
    if on_device:
        adaptive = Adaptive(world.curve, plan.seeds)
        found["adaptive"] = figure(speed(adaptive, AllAhead()) / waiting)
    return found
