import pytest

from engine.tuning.findings import Findings, find
from engine.tuning.measure import Measurement
from engine.tuning.variants import Variant
from engine.tuning.workload import Prompt
from tests.unit.engine.tuning.figures import measurement

OFF, SUFFIX = Variant(()), Variant(("suffix",))
TEXT = list(range(100, 160))
PROMPTS = [Prompt(TEXT, 60)] * 3
SEATS = {1: 1, 8: 4}


def measured(*, off: float = 50.0, suffix: float = 200.0) -> dict[str, Measurement]:
    """The answers repeat their prompts."""
    gate = {"step_ms": [(1, 10.0), (64, 20.0)], "verify_ms": [(1, 0.0)]}
    return {
        "off": measurement("off", off, answers=[TEXT] * 3),
        "suffix": measurement("suffix", suffix, answers=[TEXT] * 3, **gate),
    }


def found(by_name: dict[str, Measurement], *cells: dict[str, dict[int, float]]) -> Findings:
    result = find([OFF, SUFFIX], by_name, PROMPTS, SEATS, cells)
    assert result is not None
    return result


def test_too_little_gives_nothing() -> None:
    both = measured()

    assert find([OFF, SUFFIX], {"off": both["off"]}, PROMPTS, SEATS, []) is None
    both["suffix"].step_ms = []
    assert find([OFF, SUFFIX], both, PROMPTS, SEATS, []) is None


def test_what_copies_is_simulated_faster_with_the_index() -> None:
    result = found(measured())

    assert result.simulation["suffix"][1] > 3 * result.simulation["off"][1]
    assert result.chosen == "suffix"
    assert result.is_best_at() == {1: "suffix", 8: "suffix"}


def test_what_vllms_drafter_takes_is_in_its_steps() -> None:
    native = Variant(("native",), {"method": "mtp"})
    by_name = measured()
    by_name["native"] = measurement(
        "native",
        80.0,
        answers=[TEXT] * 3,
        trace=[[3] * 15] * 3,
        trace_tokens=3,
        step_ms=[(1, 40.0), (64, 80.0)],
        verify_ms=[(1, 0.0)],
    )

    result = find([OFF, SUFFIX, native], by_name, PROMPTS, SEATS, [])

    assert result is not None
    # Four tokens in a step that takes four times as long.
    assert result.simulation["native"][1] == pytest.approx(result.simulation["off"][1], rel=0.2)


def test_other_load_while_one_variant_was_measured_does_not_decide() -> None:
    calm, busy = found(measured()).simulation, found(measured(suffix=20.0)).simulation

    for load in SEATS:
        assert busy["suffix"][load] / busy["off"][load] == pytest.approx(
            calm["suffix"][load] / calm["off"][load]
        )


def test_simulated_figures_agree_with_measured_ones_on_average() -> None:
    result = found(measured())

    ours = result.simulation["off"][1] * result.simulation["suffix"][1]
    assert ours == pytest.approx(50.0 * 200.0)


def test_confirmed_figures_decide_when_every_concurrency_has_one() -> None:
    slower = {"off": {1: 90.0, 4: 90.0}, "suffix": {1: 50.0, 4: 50.0}}

    assert found(measured(), slower, slower).chosen == "off"
    assert found(measured(), {name: {1: cell[1]} for name, cell in slower.items()}).rounds == {}


def test_a_head_is_estimated_only_where_none_is_at_hand() -> None:
    result = found(measured())

    assert result.head_brings is not None
    assert set(result.head_brings) == {1, 8}
    # Nothing is left for a head where the index copies all.
    assert result.head_brings[1] == pytest.approx(1.0, abs=0.1)
