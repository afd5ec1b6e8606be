import numpy as np
import pytest

from bench.gate_sim.start import Start, lost_steps, run_from
from engine.simulation.course import Stage, course_of
from engine.simulation.engine import World
from engine.simulation.schedules import Scheduled, Source, fixed
from tests.unit.bench.gate_sim.worlds import Eager, curve_of, world_of


class Credulous(Eager):
    """Drafts where its profile says that the second token costs less than half a second."""

    def __init__(self, world: World, lanes: int, source: Source) -> None:
        super().__init__(world, lanes, source)
        slope = world.curve.step[1, 2] - world.curve.step[1, 1]
        self._rule = Scheduled([fixed(4 if slope < 0.5 else 0, source)] * lanes)


@pytest.mark.parametrize(
    ("start", "first", "further", "head"),
    [
        pytest.param(Start("", slow=2.0), 2.2, 0.2, 0.6, id="slow"),
        pytest.param(Start("", steep=3.0), 1.1, 0.3, 0.3, id="steep"),
        pytest.param(Start("", head=3.0), 1.1, 0.1, 0.9, id="head"),
    ],
)
def test_a_wrong_start_differs_in_one_thing(
    start: Start, first: float, further: float, head: float
) -> None:
    found = start.mistaken(curve_of(a_token=0.1, head=0.3))

    assert found.step[1, 1] == pytest.approx(first)
    assert found.step[1, 9] - found.step[1, 8] == pytest.approx(further)
    assert found.head[4] == pytest.approx(head)


def test_a_policy_that_believes_its_profile_loses_time_by_a_wrong_one() -> None:
    world = world_of(curve_of(a_token=0.01), course=course_of([Stage(100, 2)]))

    result = run_from(Start("", steep=100.0), world, "suffix", Credulous, seeds=2)

    assert (result.ratio("specgate", "none") == 1.0).all()
    assert (result.ratio("right-start", "none") > 2.0).all()
    assert (lost_steps(result, 100) > 50.0).all()
    assert np.array_equal(lost_steps(result, 200), 2 * lost_steps(result, 100))
