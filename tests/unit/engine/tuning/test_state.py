from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.tuning.state import State

KEY = {"model": "tiny", "data": "abc"}


def test_a_second_call_finds_what_the_first_one_kept(tmp_path: Path) -> None:
    first = State(tmp_path / "t", KEY)
    first.save("alone-off", {"tokens": 5})
    first.spend(2.5)
    first.spend(1.5)

    again = State(tmp_path / "t", KEY)

    assert again.load("alone-off") == {"tokens": 5}
    assert again.load("alone-suffix") is None
    assert again.names("alone-") == ["alone-off"]
    assert again.spent_seconds == 4.0


def test_fresh_forgets_it(tmp_path: Path) -> None:
    State(tmp_path, KEY).save("alone-off", {"tokens": 5})

    again = State(tmp_path, {"model": "other", "data": "abc"}, fresh=True)

    assert again.load("alone-off") is None
    assert again.spent_seconds == 0.0


def test_measurements_of_another_model_are_refused_in_one_line(tmp_path: Path) -> None:
    State(tmp_path, KEY).save("alone-off", {"tokens": 5})

    with pytest.raises(ConfigError) as refused:
        State(tmp_path, {"model": "other", "data": "abc"})

    (problem,) = refused.value.problems
    assert "holds a tuning with another model; use --fresh" in problem
    assert State(tmp_path, KEY).load("alone-off") == {"tokens": 5}


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")

    with pytest.raises(ConfigError, match="holds no tuning"):
        State(tmp_path, KEY, fresh=True)

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    state = State(tmp_path, KEY)
    (tmp_path / "measured" / "alone-off.json").write_text("{", encoding="utf-8")

    with pytest.raises(ConfigError, match=r"alone-off\.json: damaged"):
        state.load("alone-off")
