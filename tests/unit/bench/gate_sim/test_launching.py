"""Steps that are launched ahead in the simulator, and the contest between both ways."""

import numpy as np
import pytest

from bench.gate_sim.launching import Launches, LaunchPlan, compare_launches
from bench.gate_sim.plan import EDIT_TRAFFIC
from engine.simulation.arrays import Flags, Floats, Ints
from engine.simulation.engine import Pause, Record, World, simulate
from engine.simulation.specgate import Specgate
from tests.unit.bench.gate_sim.worlds import SURE, curve_of, world_of

PAUSE = Pause(step=0.5, sequence=0.25)


class Always:
    """Each step waits, or none does; keeps what it is told."""

    def __init__(self, ahead: bool) -> None:
        self.ahead = ahead
        self.told: list[tuple[Flags, Ints, Ints]] = []

    def choose(self, sequences: Ints) -> Flags:
        return np.full(len(sequences), self.ahead)

    def observe(self, ahead: Flags, sequences: Ints, tokens: Ints, seconds: Floats) -> None:
        self.told.append((ahead, sequences, tokens))


def run(world: World, *, ahead: bool, on_device: bool = False) -> Record:
    rule = Specgate(world, 2, "both", on_device=on_device)
    return simulate(world, rule, np.arange(2), Always(ahead))


def paused(world: World, pause: Pause) -> World:
    return World(world.curve, world.library, world.course, pause)


def test_only_a_step_that_waits_has_a_pause() -> None:
    world = world_of(curve_of(a_token=0.001), SURE)
    free, dear = paused(world, Pause()), paused(world, PAUSE)

    assert run(dear, ahead=True).seconds.sum() == run(free, ahead=True).seconds.sum()
    most = (run(dear, ahead=False).seconds - run(free, ahead=False).seconds).max()
    assert most == pytest.approx(0.5 + 4 * 0.25)


def test_a_step_ahead_accepts_fewer_tokens_of_the_index() -> None:
    world = world_of(curve_of(a_token=0.001), SURE, tokens=400)

    ahead, waiting = run(world, ahead=True), run(world, ahead=False)

    assert 0 < ahead.accepted.sum() < waiting.accepted.sum()
    assert ahead.head_passes.sum() == 0


def test_a_head_on_the_device_drafts_in_steps_ahead() -> None:
    world = world_of(curve_of(a_token=0.001), SURE, tokens=400)

    record = run(world, ahead=True, on_device=True)

    assert record.head_passes.sum() > 0
    assert record.accepted.sum() > 0


def test_every_request_gets_its_tokens_either_way() -> None:
    world = world_of(curve_of(a_token=0.001), SURE, tokens=200)

    for ahead in (False, True):
        last = Always(ahead)
        simulate(world, Specgate(world, 2, "both"), np.arange(2), last)
        tokens = np.array([tokens for _, _, tokens in last.told]).sum(0)
        assert tokens.min() >= world.course.tokens


def test_the_choice_is_the_workers() -> None:
    launches = Launches(2)
    for _ in range(400):
        ahead = launches.choose(np.array([4, 4]))
        # In the first lane a step ahead brings twice as much, in the second one half.
        speed = np.where(ahead, [2.0, 0.5], 1.0)
        launches.observe(ahead, np.array([4, 4]), np.array([8, 8]), 1 / speed)

    assert launches.choose(np.array([4, 4]))[0]
    assert 0.3 < launches.share < 0.6


def test_the_contest_names_its_worst_and_best_cells() -> None:
    plan = LaunchPlan(("gpu-8b",), (EDIT_TRAFFIC,), (1,), seeds=1, tokens_a_seat=900)
    said: list[str] = []

    found = compare_launches(plan, said.append)

    assert set(found["cells"]) == {"gpu-8b/edit/1", "gpu-8b/edit/1/on device"}
    assert found["worst"]["ratio"] <= found["best"]["ratio"]
    assert len(said) == 2
