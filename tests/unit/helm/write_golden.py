"""Write the golden files again after a change of the chart.

usage: python -m tests.unit.helm.write_golden
"""

from tests.unit.helm.chart import FILES, GOLDEN, golden, render_file


def main() -> None:
    """Write one file for each values file and remove those without one."""
    for stale in GOLDEN.glob("*.yaml"):
        stale.unlink()
    for name in FILES:
        (GOLDEN / f"{name}.yaml").write_text(golden(render_file(name)), encoding="utf-8")


if __name__ == "__main__":
    main()
