from pathlib import Path

from tests.unit.monitoring.rules.promtool import promtool, write_rules


def test_prometheus_accepts_the_rules(tmp_path: Path) -> None:
    done = promtool("check", "rules", "--lint-fatal", *write_rules(tmp_path))

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("SUCCESS") == len(list(tmp_path.iterdir()))
