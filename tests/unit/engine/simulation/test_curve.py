from pathlib import Path

import numpy as np
import pytest

from bench.gate_sim.bench import cells_of
from bench.gate_sim.plan import CURVES, FULL, QUICK, STAIRCASES
from engine.simulation.curve import MOST_SEQUENCES, CurveError, load_curve, load_curves

FILE = """
step_ms:
  1: [[1, 10], [3, 30]]
  4: [[4, 50], [8, 70]]
context_us: 2
head_ms: [[1, 1], [3, 5]]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "machine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("sequences", "tokens", "milliseconds"),
    [
        pytest.param(1, 1, 10.0, id="a point"),
        pytest.param(1, 2, 20.0, id="between points"),
        pytest.param(1, 5, 50.0, id="beyond the last point"),
        pytest.param(4, 6, 60.0, id="other sequences"),
        pytest.param(9, 6, 60.0, id="more sequences than measured"),
        pytest.param(2, 4, 40.0 * 2 / 3 + 50.0 / 3, id="sequences between those measured"),
    ],
)
def test_times_are_straight_between_what_was_measured(
    tmp_path: Path, sequences: int, tokens: int, milliseconds: float
) -> None:
    curve = load_curve(write(tmp_path, FILE))

    found = curve.seconds(np.array(sequences), np.array(tokens), np.array(0))

    assert float(found) == pytest.approx(milliseconds / 1e3)


def test_context_adds_to_a_step(tmp_path: Path) -> None:
    curve = load_curve(write(tmp_path, FILE))

    found = curve.seconds(np.array([1]), np.array([1]), np.array([1000]))

    assert found.tolist() == pytest.approx([0.012])


def test_a_pass_of_the_head_grows_with_its_sequences(tmp_path: Path) -> None:
    curve = load_curve(write(tmp_path, FILE))

    assert curve.head[[1, 2, 4]].tolist() == pytest.approx([0.001, 0.003, 0.007])


def test_verification_adds_time_by_sequences_or_none_if_not_given(tmp_path: Path) -> None:
    plain = load_curve(write(tmp_path, FILE))
    told = load_curve(write(tmp_path, FILE + "verify_ms: [[1, 2], [3, 4]]"))

    assert plain.verify.tolist() == [0.0] * (MOST_SEQUENCES + 1)
    assert told.verify[[1, 2, 3]].tolist() == pytest.approx([0.002, 0.003, 0.004])


@pytest.mark.parametrize(
    ("tokens", "padded"),
    [(1, 1), (2, 3), (3, 3), (4, 6), (6, 6), (7, 8), (8, 8), (9, 9), (1000, 1000)],
    ids=str,
)
def test_a_step_costs_as_much_as_the_next_edge(tmp_path: Path, tokens: int, padded: int) -> None:
    smooth = load_curve(write(tmp_path, FILE))
    stairs = load_curve(write(tmp_path, FILE + "edges: [1, 3, [6, 8, 2]]"))

    assert smooth.edges == ()
    assert stairs.edges == (1, 3, 6, 8)
    assert stairs.step[1, tokens] == smooth.step[1, padded]


@pytest.mark.parametrize("name", STAIRCASES)
def test_a_staircase_jumps_at_its_edges_only(name: str) -> None:
    curve = load_curve(CURVES / f"{name}.yaml")
    inside = np.arange(1, curve.edges[-1])

    jumps = inside[np.diff(curve.step[16])[inside] > 0.0]

    assert set(jumps) <= set(curve.edges)
    assert len(jumps) > 4


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("step_ms: {1: [[1, 10]]}\ncontext_us: 0", id="no head"),
        pytest.param(FILE.replace("[3, 30]", "[1, 30]"), id="tokens do not rise"),
        pytest.param(FILE.replace("30", "-30"), id="a time below 0"),
        pytest.param(FILE + "edges: [8, 4]", id="edges do not rise"),
        pytest.param(FILE + "edges: [0]", id="an edge of no tokens"),
        pytest.param(FILE + "edges: [[8, 16]]", id="a row without a distance"),
        pytest.param("- a\n- b", id="a list"),
        pytest.param("{", id="no YAML"),
    ],
)
def test_what_is_no_curve_is_refused_by_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(CurveError, match=r"machine\.yaml"):
        load_curve(write(tmp_path, text))


def test_every_curve_of_a_plan_is_there() -> None:
    names = {curve.name for curve in load_curves(CURVES)}

    assert {cell.curve for plan in (FULL, QUICK) for cell in cells_of(plan)} <= names


@pytest.mark.parametrize("name", [path.stem for path in CURVES.glob("*.yaml")])
def test_a_profile_never_falls_and_begins_with_one_token(name: str) -> None:
    tokens, seconds = zip(*load_curve(CURVES / f"{name}.yaml").profile(), strict=True)

    assert tokens[0] == 1
    assert list(seconds) == sorted(seconds)
    assert tokens[-1] > MOST_SEQUENCES
