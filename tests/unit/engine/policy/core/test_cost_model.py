"""The learnt costs of steps, on machines whose true costs are known."""

import math
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine._core.policy import CostModel

PROFILE = [(1, 15.6), (8, 18.5), (16, 25.0), (32, 38.5), (64, 57.5), (128, 119.0), (256, 233.0)]
LONGEST = 528


class Machine:
    """Steps of four requests that draft now and then; times in seconds, with noise and bursts.

    `slow`: all is so much slower; `steep`: what tokens add is.
    """

    def __init__(self, *, slow: float = 1.0, steep: float = 1.0, context: float = 0.0) -> None:
        self.slow, self.steep, self.context = slow, steep, context
        self._true = CostModel(PROFILE, longest=LONGEST)
        self._random = Random(1)

    def time(self, tokens: float, context_tokens: float = 0.0) -> float:
        steep = (self._true.time(int(tokens)) - PROFILE[0][1]) * self.steep
        return 1e-3 * self.slow * (PROFILE[0][1] + steep) + self.context * context_tokens

    def teach(self, model: CostModel, steps: int) -> None:
        random = self._random
        for _ in range(steps):
            tokens = 4 + random.choice([0, 0, 2, 5, 9, 14, 20])
            context = random.randint(100, 8000)
            burst = 5.0 if random.random() < 0.03 else 1.0
            noise = math.exp(random.gauss(0.0, 0.05)) * burst
            model.observe(tokens, context, noise * self.time(tokens, context))

    def errors(self, model: CostModel, sizes: Sequence[int] = (4, 8, 16, 24)) -> list[float]:
        return [model.time(size, 2000) / self.time(size, 2000) - 1.0 for size in sizes]


def learnt(machine: Machine, steps: int) -> CostModel:
    model = CostModel(PROFILE, longest=LONGEST)
    machine.teach(model, steps)
    return model


def test_before_anything_was_measured_it_is_the_profile() -> None:
    model = CostModel(PROFILE, longest=LONGEST)

    assert [model.time(at) for at, _ in PROFILE] == pytest.approx([time for _, time in PROFILE])
    assert model.time(4) == pytest.approx(15.6 + 3 * 2.9 / 7)
    assert model.time(512) == pytest.approx(233.0 + 256 * 114 / 128)


def test_the_first_step_shows_the_unit() -> None:
    model = CostModel(PROFILE, longest=LONGEST)

    model.observe(16, 0, 0.050)

    assert model.time(16) == pytest.approx(0.050, rel=0.01)
    assert model.time(8) == pytest.approx(0.037, rel=0.01)
    assert model.time(64) == pytest.approx(0.115, rel=0.1)


def test_it_learns_a_machine_that_is_like_its_profile() -> None:
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
def test_within_50_steps_it_has_followed_a_shift(machine: Machine, within: float) -> None:
    model = learnt(Machine(), 300)

    machine.teach(model, 50)

    assert max(map(abs, machine.errors(model))) < within


def test_a_burst_of_a_neighbour_moves_it_little() -> None:
    model = learnt(Machine(), 300)
    before = model.time(16)

    for _ in range(2):
        model.observe(16, 2000, 10 * before)

    assert model.time(16) < 1.15 * before


def test_a_profile_of_another_machine_is_corrected_where_steps_are() -> None:
    """Told that tokens are free, it learns what they cost."""
    model = CostModel([(1, 1.0)], longest=LONGEST)
    machine = Machine()

    machine.teach(model, 200)

    assert max(map(abs, machine.errors(model))) < 0.2
    assert model.time(17) - model.time(16) == pytest.approx(1e-3 * 13.5 / 16, rel=0.4)


def test_what_a_context_costs_is_learnt() -> None:
    machine = Machine(context=2e-6)  # 16 ms of some 35 at most

    model = learnt(machine, 400)

    assert model.time(8, 8000) - model.time(8, 0) == pytest.approx(0.016, rel=0.25)


class TestVerification:
    """What a step takes longer with any draft, beside what its tokens take."""

    def taught(self, adds: float, *, rows: int = 8, steps: int = 120, seed: int = 1) -> CostModel:
        model, random, true = CostModel(PROFILE, longest=LONGEST), Random(seed), Machine()
        for step in range(steps):
            drafts = 0 if step % 8 == 0 else random.choice([1, 2, 4, 8])
            seconds = true.time(rows + drafts) + (adds if drafts else 0.0)
            noise = math.exp(random.gauss(0.0, 0.04))
            model.observe(rows + drafts, 0, noise * seconds, rows if drafts else 0)
        return model

    @pytest.mark.parametrize("adds", [0.0, 0.002, 0.008], ids="{:.3f} s".format)
    def test_it_is_told_apart_from_what_tokens_take(self, adds: float) -> None:
        model = self.taught(adds)

        found = [self.taught(adds, seed=seed).verification(8) for seed in range(5)]

        assert sum(found) / 5 == pytest.approx(adds, abs=0.001)
        assert model.time(8) == pytest.approx(Machine().time(8), rel=0.05)
        assert model.time(16) + model.verification(8) == pytest.approx(
            Machine().time(16) + adds, rel=0.06
        )

    def test_doubt_of_it_fades(self) -> None:
        doubts = [self.taught(0.004, steps=steps).verification_doubt(8) for steps in (2, 20, 200)]

        assert doubts == sorted(doubts, reverse=True)
        assert doubts[-1] < 0.1 * 0.0185

    def test_it_is_never_below_nothing(self) -> None:
        model = CostModel(PROFILE, longest=LONGEST)
        for step in range(100):
            model.observe(8, 0, 0.010 if step % 2 else 0.018, 8 * (step % 2))

        assert model.verification(8) == 0.0

    def test_in_steps_that_all_verify_tokens_do_not_become_free(self) -> None:
        """Of both only the sum is seen; the curve still never falls."""
        model, random = CostModel(PROFILE, longest=LONGEST), Random(3)
        for step in range(600):
            tokens = 1 if step % 30 == 0 else random.choice([2, 3, 4])
            noise = math.exp(random.gauss(0.0, 0.04))
            model.observe(tokens, 0, noise * Machine().time(tokens), tokens > 1)

        assert model.verification(1) < 0.001
        assert model.time(4) - model.time(1) == pytest.approx(
            Machine().time(4) - Machine().time(1), rel=0.6
        )


def test_where_it_was_never_measured_it_keeps_the_profiles_shape() -> None:
    model = learnt(Machine(), 1000)

    assert model.time(256) / model.time(128) == pytest.approx(233 / 119, rel=0.1)


def test_a_long_calm_does_not_make_it_deaf() -> None:
    model = learnt(Machine(), 5000)
    slower = Machine(slow=3.0)

    slower.teach(model, 20)

    assert max(map(abs, slower.errors(model))) < 0.15


@pytest.mark.parametrize(
    ("tokens", "context", "seconds"),
    [(4, 0, 0.0), (4, 0, -1.0), (4, 0, math.nan), (4, 0, math.inf), (0, 0, 1.0), (4, -1, 1.0)],
    ids=str,
)
def test_what_is_no_measurement_is_left_out(tokens: int, context: int, seconds: float) -> None:
    model = learnt(Machine(), 20)
    before = model.points

    model.observe(tokens, context, seconds)

    assert model.points == before


measurements = st.lists(
    st.tuples(
        st.integers(1, 600), st.integers(0, 10**6), st.floats(1e-6, 100.0, allow_subnormal=False)
    ),
    max_size=80,
)


@settings(deadline=None)
@given(measurements)
def test_whatever_is_measured_more_tokens_never_take_less_time(
    steps: list[tuple[int, int, float]],
) -> None:
    model = CostModel(PROFILE, longest=LONGEST)
    for step in steps:
        model.observe(*step)

    times = [model.time(tokens) for tokens in range(1, 700, 7)]
    contexts = [model.time(8, context) for context in (0, 10, 1000, 10**6)]

    assert times[0] > 0.0
    assert all(map(math.isfinite, times))
    for values in (times, contexts):
        assert values == sorted(values)


@given(measurements)
def test_told_the_same_it_says_the_same(steps: list[tuple[int, int, float]]) -> None:
    models = [CostModel(PROFILE, longest=LONGEST) for _ in range(2)]

    said = [[model.observe(*step) for step in steps] for model in models]

    assert said[0] == said[1]
    assert models[0].points == models[1].points
