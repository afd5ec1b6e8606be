"""Write the chart's dashboards and rules, or check that they are up to date.

usage: python -m monitoring [--check]

With --check nothing is written; the exit status is 1 if a file is out of date or unknown.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from monitoring.dashboards import dashboard_files
from monitoring.rules import rule_files, rule_templates

CHART = Path(__file__).parent.parent / "helm" / "specgate"


def generated() -> Mapping[str, str]:
    """Return the text of every generated file by its path below the chart's folder."""
    return {
        **{f"dashboards/{name}": text for name, text in dashboard_files().items()},
        **{f"rules/{name}": text for name, text in rule_files().items()},
        **{f"files/rules/{name}": text for name, text in rule_templates().items()},
    }


def stale(chart: Path) -> list[str]:
    """Return the generated files that are missing or differ, and unknown files beside them."""
    wanted = generated()
    found = {
        str(path.relative_to(chart)): path.read_text(encoding="utf-8")
        for pattern in ("dashboards/*", "rules/*", "files/rules/*")
        for path in chart.glob(pattern)
    }
    return sorted(
        name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)
    )


def write(chart: Path) -> None:
    """Write every generated file and remove unknown ones."""
    wanted = generated()
    for name in stale(chart):
        path = chart / name
        if name in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[name], encoding="utf-8")
        else:
            path.unlink()


def main() -> int:
    """Write or check the files of the chart."""
    parser = argparse.ArgumentParser(prog="python -m monitoring", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit status 1 if stale"
    )
    if not parser.parse_args().check:
        write(CHART)
        return 0
    names = stale(CHART)
    for name in names:
        sys.stderr.write(f"{name} is out of date: run `make dashboards`\n")
    return int(bool(names))


if __name__ == "__main__":
    sys.exit(main())
