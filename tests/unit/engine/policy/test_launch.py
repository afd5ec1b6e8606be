"""The choice between waiting for tokens and launching ahead, on made-up speeds."""

from random import Random
from typing import Literal

import pytest

from engine.policy import Launch
from engine.policy.launch import _LEAST_TRIALS, _REST_STEPS

STEPS = 20_000


def play(
    launch: Launch, gain: float, *, sequences: int = 4, steps: int = STEPS, seed: int = 1
) -> float:
    """Play steps in which one launched ahead brings `gain` times the tokens a second.

    Returns:
        The share of steps that were launched ahead.
    """
    random = Random(seed)
    ahead_steps = 0
    for _ in range(steps):
        ahead = launch.choose(sequences)
        ahead_steps += ahead
        tokens = sum(random.choice([1, 1, 2, 4]) for _ in range(sequences))
        launch.observe(
            ahead=ahead, sequences=sequences, tokens=tokens, seconds=1 / gain if ahead else 1.0
        )
    return ahead_steps / steps


def test_steps_wait_until_launching_ahead_has_shown_to_be_better() -> None:
    launch = Launch()

    assert not any(launch.choose(1) for _ in range(_REST_STEPS[0]))


@pytest.mark.parametrize(("gain", "share"), [(0.6, (0.0, 0.03)), (1.3, (0.9, 1.0))])
@pytest.mark.parametrize("seed", range(3))
def test_the_faster_choice_is_found(gain: float, share: tuple[float, float], seed: int) -> None:
    least, most = share

    assert least <= play(Launch(), gain, seed=seed) <= most


def test_a_choice_changes_when_the_other_becomes_better() -> None:
    launch = Launch()
    play(launch, 1.5)

    play(launch, 0.5, steps=4 * STEPS)

    assert play(launch, 0.5, steps=1000) < 0.1


@pytest.mark.parametrize("gain", [0.5, 0.7, 0.9])
def test_trials_cost_a_hundredth_of_the_time(gain: float) -> None:
    launch = Launch()
    play(launch, gain)  # the first trials do not know yet what they cost

    share = play(launch, gain)

    assert share * (1 - gain) < 0.015


def test_each_load_has_its_own_choice() -> None:
    launch = Launch()

    play(launch, 1.5, sequences=64)
    play(launch, 0.6, sequences=1)

    assert play(launch, 1.5, sequences=64, steps=200) > 0.8
    assert play(launch, 0.6, sequences=1, steps=200) < 0.2


def test_a_trial_ends_with_the_load_that_it_was_for() -> None:
    launch = Launch()
    while not launch.choose(1):
        launch.observe(ahead=False, sequences=1, tokens=2, seconds=1.0)

    assert not launch.choose(64)


def test_steps_that_cannot_be_timed_decide_nothing() -> None:
    launch = Launch()
    for _ in range(_LEAST_TRIALS * STEPS):
        ahead = launch.choose(2)
        launch.observe(ahead=ahead, sequences=0, tokens=0, seconds=1.0)

    assert (launch.waiting, launch.ahead) == (_LEAST_TRIALS * STEPS, 0)


@pytest.mark.parametrize(("rule", "ahead"), [("wait", False), ("ahead", True)])
def test_a_rule_that_is_set_holds(rule: Literal["wait", "ahead"], ahead: bool) -> None:
    launch = Launch(rule)

    assert play(launch, 0.5 if ahead else 2.0, steps=500) == ahead
