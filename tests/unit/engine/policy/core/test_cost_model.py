"""The learnt cost of steps, seen through the gate, on machines whose true cost is known."""

import math
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.policy import Gate

PROFILE = [(1, 15.6), (8, 18.5), (16, 25.0), (32, 38.5), (64, 57.5), (128, 119.0), (256, 233.0)]


def untaught() -> Gate:
    return Gate(PROFILE, most_sequences=16)


class Machine:
    """Steps of four requests that sometimes draft; times in seconds, with noise and bursts.

    `slow` scales the time of a step, `steep` the time that further tokens add.
    """

    def __init__(self, *, slow: float = 1.0, steep: float = 1.0, context: float = 0.0) -> None:
        self.slow, self.steep, self.context = slow, steep, context
        self._true = untaught()
        self._random = Random(1)

    def time(self, tokens: float, context_tokens: float = 0.0) -> float:
        steep = (self._true.predict_step(int(tokens)) - PROFILE[0][1]) * self.steep
        return 1e-3 * self.slow * (PROFILE[0][1] + steep) + self.context * context_tokens

    def teach(self, model: Gate, steps: int) -> None:
        random = self._random
        for _ in range(steps):
            tokens = 4 + random.choice([0, 0, 2, 5, 9, 14, 20])
            context = random.randint(100, 8000)
            burst = 5.0 if random.random() < 0.03 else 1.0
            noise = math.exp(random.gauss(0.0, 0.05)) * burst
            model.observe_step(tokens, context, noise * self.time(tokens, context))

    def errors(self, model: Gate, sizes: Sequence[int] = (4, 8, 16, 24)) -> list[float]:
        return [model.predict_step(size, 2000) / self.time(size, 2000) - 1.0 for size in sizes]


def learnt(machine: Machine, steps: int) -> Gate:
    model = untaught()
    machine.teach(model, steps)
    return model


def test_the_first_step_sets_the_unit_of_time() -> None:
    model = untaught()

    model.observe_step(16, 0, 0.050)

    assert model.predict_step(16) == pytest.approx(0.050, rel=0.01)
    assert model.predict_step(8) == pytest.approx(0.037, rel=0.01)
    assert model.predict_step(64) == pytest.approx(0.115, rel=0.1)


def test_a_machine_like_its_profile_is_learnt() -> None:
    errors = Machine().errors(learnt(Machine(), 200))

    assert max(map(abs, errors)) < 0.05


@pytest.mark.parametrize(
    ("machine", "within"),
    [
        (Machine(slow=2.0), 0.10),
        (Machine(slow=0.5), 0.10),
        (Machine(steep=2.0), 0.15),
        (Machine(slow=2.0, steep=2.0), 0.15),
    ],
    ids=["all doubles", "all halves", "tokens double", "both"],
)
def test_a_shift_is_followed_within_50_steps(machine: Machine, within: float) -> None:
    model = learnt(Machine(), 300)

    machine.teach(model, 50)

    assert max(map(abs, machine.errors(model))) < within


def test_two_outliers_move_it_little() -> None:
    model = learnt(Machine(), 300)
    before = model.predict_step(16)

    for _ in range(2):
        model.observe_step(16, 2000, 10 * before)

    assert model.predict_step(16) < 1.15 * before


def test_a_wrong_profile_is_corrected_where_steps_were_measured() -> None:
    """The profile says that tokens are free; they are not."""
    model = Gate([(1, 1.0)], most_sequences=16)
    machine = Machine()

    machine.teach(model, 200)

    assert max(map(abs, machine.errors(model))) < 0.2
    assert model.predict_step(17) - model.predict_step(16) == pytest.approx(
        1e-3 * 13.5 / 16, rel=0.4
    )


def test_the_cost_of_context_is_learnt() -> None:
    machine = Machine(context=2e-6)  # 16 ms of some 35 at most

    model = learnt(machine, 400)

    assert model.predict_step(8, 8000) - model.predict_step(8, 0) == pytest.approx(0.016, rel=0.25)


class TestVerification:
    """The time that verifying any draft adds to a step."""

    def taught(self, adds: float, *, rows: int = 8, steps: int = 120, seed: int = 1) -> Gate:
        model, random, true = untaught(), Random(seed), Machine()
        for step in range(steps):
            drafts = 0 if step % 8 == 0 else random.choice([1, 2, 4, 8])
            seconds = true.time(rows + drafts) + (adds if drafts else 0.0)
            noise = math.exp(random.gauss(0.0, 0.04))
            model.observe_step(rows + drafts, 0, noise * seconds, rows if drafts else 0)
        return model

    @pytest.mark.parametrize("adds", [0.0, 0.002, 0.008], ids="{:.3f} s".format)
    def test_it_is_separated_from_the_time_of_tokens(self, adds: float) -> None:
        model = self.taught(adds)

        found = [self.taught(adds, seed=seed).predict_verification(8) for seed in range(5)]

        assert sum(found) / 5 == pytest.approx(adds, abs=0.001)
        assert model.predict_step(8) == pytest.approx(Machine().time(8), rel=0.05)
        assert model.predict_step(16) + model.predict_verification(8) == pytest.approx(
            Machine().time(16) + adds, rel=0.06
        )

    def test_it_is_never_negative(self) -> None:
        model = untaught()
        for step in range(100):
            model.observe_step(8, 0, 0.010 if step % 2 else 0.018, 8 * (step % 2))

        assert model.predict_verification(8) == 0.0

    def test_tokens_do_not_become_free_if_every_step_verifies(self) -> None:
        """Only the sum of both costs can be observed then."""
        model, random = untaught(), Random(3)
        for step in range(600):
            tokens = 1 if step % 30 == 0 else random.choice([2, 3, 4])
            noise = math.exp(random.gauss(0.0, 0.04))
            model.observe_step(tokens, 0, noise * Machine().time(tokens), tokens > 1)

        assert model.predict_verification(1) < 0.001
        assert model.predict_step(4) - model.predict_step(1) == pytest.approx(
            Machine().time(4) - Machine().time(1), rel=0.6
        )


def test_a_shift_after_a_long_calm_is_followed() -> None:
    model = learnt(Machine(), 5000)
    slower = Machine(slow=3.0)

    slower.teach(model, 20)

    assert max(map(abs, slower.errors(model))) < 0.15


@pytest.mark.parametrize(
    ("tokens", "context", "seconds"),
    [(4, 0, 0.0), (4, 0, -1.0), (4, 0, math.nan), (4, 0, math.inf), (0, 0, 1.0)],
    ids=str,
)
def test_an_invalid_measurement_is_ignored(tokens: int, context: int, seconds: float) -> None:
    model = learnt(Machine(), 20)
    before = model.step_curve()

    model.observe_step(tokens, context, seconds)

    assert model.step_curve() == before


measurements = st.lists(
    st.tuples(
        st.integers(1, 600), st.integers(0, 10**6), st.floats(1e-6, 100.0, allow_subnormal=False)
    ),
    max_size=80,
)


@settings(deadline=None)
@given(measurements)
def test_time_never_falls_with_tokens_or_context(
    steps: list[tuple[int, int, float]],
) -> None:
    model = untaught()
    for step in steps:
        model.observe_step(*step)

    times = [model.predict_step(tokens) for tokens in range(1, 700, 7)]
    contexts = [model.predict_step(8, context) for context in (0, 10, 1000, 10**6)]

    assert times[0] > 0.0
    assert all(map(math.isfinite, times))
    for values in (times, contexts):
        assert values == sorted(values)


@given(measurements)
def test_same_calls_give_same_estimates(steps: list[tuple[int, int, float]]) -> None:
    models = [untaught() for _ in range(2)]

    said = [[model.observe_step(*step) for step in steps] for model in models]

    assert said[0] == said[1]
    assert models[0].step_curve() == models[1].step_curve()
