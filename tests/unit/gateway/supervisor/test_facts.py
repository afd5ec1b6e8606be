from pathlib import Path

from gateway.supervisor import SupervisorFacts, read_facts, write_facts


def test_other_processes_read_the_latest_facts(tmp_path: Path) -> None:
    file = tmp_path / "supervisor.json"
    write_facts(file, SupervisorFacts("starting", 7, 0, None))
    latest = SupervisorFacts("ready", 8, 1, "exited")

    write_facts(file, latest)

    assert read_facts(file) == latest
    assert [path.name for path in tmp_path.iterdir()] == ["supervisor.json"]


def test_before_the_first_facts_there_are_none(tmp_path: Path) -> None:
    assert read_facts(tmp_path / "supervisor.json") is None
