from pathlib import Path

import pytest
import yaml

from loadtest.load.scenario import Scenario, ScenarioError, load_scenario, scenario_names

SMALL = {
    "about": "x",
    "arrivals": {"stages": [{"requests_per_second": 1, "seconds": 2}] * 2},
    "objective": {"first_token_ms": 1, "per_token_ms": 1},
    "mix": [{"name": "a", "prompts": "chat", "output_tokens": {"low": 1, "high": 2}}],
}


def test_the_scenarios_that_are_promised_come_with_the_package() -> None:
    promised = {"chat", "code", "agent-sessions", "long-context", "mixed", "abort-storm"}

    assert promised | {"slow-readers"} <= set(scenario_names())


@pytest.mark.parametrize("name", scenario_names())
def test_every_scenario_of_the_package_is_right(name: str) -> None:
    assert load_scenario(name).mix


def test_a_scenario_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(SMALL), encoding="utf-8")

    assert load_scenario(str(path)).about == "x"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mix": []}, "mix"),
        ({"unknown": 1}, "unknown"),
        ({"mix": SMALL["mix"] * 2}, "same name"),  # type: ignore[operator]  # a list
        ({"objective": {"first_token_ms": 0, "per_token_ms": 1}}, "first_token_ms"),
        (
            {"mix": [{"name": "a", "prompts": "chat", "output_tokens": {"low": 3, "high": 2}}]},
            "low is above high",
        ),
    ],
    ids=["empty", "unknown", "twice", "zero", "upside down"],
)
def test_a_wrong_scenario_says_where(tmp_path: Path, change: dict[str, object], words: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump({**SMALL, **change}), encoding="utf-8")

    with pytest.raises(ScenarioError, match=words):
        load_scenario(str(path))


def test_a_scenario_that_is_nowhere_names_those_that_are() -> None:
    with pytest.raises(ScenarioError, match="agent-sessions"):
        load_scenario("nonesuch")


def test_a_file_that_is_no_yaml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("a: [", encoding="utf-8")

    with pytest.raises(ScenarioError, match="is not YAML"):
        load_scenario(str(path))


def test_another_length_keeps_the_stages_and_another_rate_makes_them_one() -> None:
    scenario = Scenario.model_validate(SMALL)

    longer = scenario.with_arrivals(seconds=9.0)
    faster = scenario.with_arrivals(process="constant", requests_per_second=7.0)

    assert [stage.seconds for stage in longer.arrivals.stages] == [9.0, 9.0]
    assert [stage.requests_per_second for stage in faster.arrivals.stages] == [7.0]
    assert (longer.arrivals.process, faster.arrivals.process) == ("poisson", "constant")


def test_clients_that_leave_or_read_slowly_are_not_measured() -> None:
    by_name = {traffic.name: traffic for traffic in load_scenario("mixed").mix}

    assert by_name["chat"].is_measured
    assert not by_name["leaves"].is_measured
    assert not by_name["slow"].is_measured
