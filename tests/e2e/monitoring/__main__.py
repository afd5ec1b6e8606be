"""`make dashboards-pictures`: draw the dashboards from a live run.

    python -m tests.e2e.monitoring [--seconds 180]

Starts a real worker behind a gateway and a real Prometheus, has clients use them, and writes
docs/dashboard-<name>.png. Speculation fails for a while, and the worker is lost once.
"""

import argparse
import tempfile
import time
from pathlib import Path

from tests.e2e.monitoring.live import live
from tests.e2e.monitoring.picture import Span, draw
from tests.e2e.monitoring.queries import dashboards
from tests.e2e.monitoring.traffic import everything_for
from tests.e2e.service import ROOT

_WINDOW = "15s"


def main() -> None:
    """Run, and write the pictures."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.monitoring", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180, help="of traffic")
    seconds: float = parser.parse_args().seconds
    with (
        tempfile.TemporaryDirectory(prefix="specgate-live-") as folder,
        live(Path(folder)) as running,
    ):
        began = time.time()
        everything_for(running.clients, seconds=seconds)
        running.clients.see_speculation_fail()
        running.clients.lose_the_worker()
        running.prometheus.wait_for("sum(gateway_worker_restarts_total) > 0")
        running.clients.service.wait_ready()
        everything_for(running.clients, seconds=seconds / 4)
        for name, dashboard in dashboards().items():
            span = Span(began, time.time(), _WINDOW)
            draw(dashboard, running.prometheus, span, ROOT / "docs" / f"dashboard-{name}.png")


if __name__ == "__main__":
    main()
