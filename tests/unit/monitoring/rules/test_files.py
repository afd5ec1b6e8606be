from pathlib import Path

import yaml

from monitoring.rules import ALERTS, RECORDINGS, rule_files
from tests.unit.monitoring.rules.promtool import promtool, write_rules


def test_prometheus_accepts_them(tmp_path: Path) -> None:
    done = promtool("check", "rules", "--lint-fatal", *write_rules(tmp_path))

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(ALERTS)} rules found" in done.stdout
    assert f"SUCCESS: {len(RECORDINGS)} rules found" in done.stdout


def test_each_file_has_one_group_of_its_own_name() -> None:
    groups = [yaml.safe_load(text)["groups"] for text in rule_files().values()]

    assert [[group["name"] for group in each] for each in groups] == [
        ["specgate-recordings"],
        ["specgate-alerts"],
    ]
