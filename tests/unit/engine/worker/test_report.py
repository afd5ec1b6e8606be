from pathlib import Path

from engine.worker.report import Report, read_reports


def test_the_parts_of_all_engines_are_joined(tmp_path: Path) -> None:
    Report(tmp_path, "gate", 1).write({"price": 0.5})
    Report(tmp_path, "gate", 0).write({"price": 0.1})
    Report(tmp_path, "acceptance", 0).write({"suffix": {"drafted": 2}})
    (tmp_path / "counter_12.db").write_bytes(b"a file of vLLM's")

    assert read_reports(tmp_path) == {
        "engines": [
            {"engine": 0, "gate": {"price": 0.1}, "acceptance": {"suffix": {"drafted": 2}}},
            {"engine": 1, "gate": {"price": 0.5}},
        ]
    }


def test_a_later_report_replaces_an_earlier_one(tmp_path: Path) -> None:
    report = Report(tmp_path, "gate", 0)
    for price in (0.1, 0.2):
        report.write({"price": price})

    assert read_reports(tmp_path) == {"engines": [{"engine": 0, "gate": {"price": 0.2}}]}
    assert len(list(tmp_path.iterdir())) == 1
