from pathlib import Path

import pytest

from engine.worker.report import Report, read_reports, report_folder


def test_the_parts_of_all_engines_are_joined(tmp_path: Path) -> None:
    Report(tmp_path, "gate", 1).write({"price": 0.5})
    Report(tmp_path, "gate", 0).write({"price": 0.1})
    Report(tmp_path, "acceptance", 0).write({"suffix": {"drafted": 2}})
    (tmp_path / "counter_12.db").write_bytes(b"what vLLM keeps there")

    assert read_reports(tmp_path) == {
        "engines": [
            {"engine": 0, "gate": {"price": 0.1}, "acceptance": {"suffix": {"drafted": 2}}},
            {"engine": 1, "gate": {"price": 0.5}},
        ]
    }


def test_the_latest_word_counts_and_nothing_else_is_left(tmp_path: Path) -> None:
    report = Report(tmp_path, "gate", 0)
    for price in (0.1, 0.2):
        report.write({"price": price})

    assert read_reports(tmp_path) == {"engines": [{"engine": 0, "gate": {"price": 0.2}}]}
    assert len(list(tmp_path.iterdir())) == 1


def test_before_anything_was_told_there_are_no_engines(tmp_path: Path) -> None:
    assert read_reports(tmp_path) == {"engines": []}


def test_outside_of_a_worker_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)

    assert report_folder() is None
    Report(report_folder(), "gate", 0).write({"price": 0.1})


def test_the_folder_is_that_of_the_metrics(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))

    assert report_folder() == tmp_path
