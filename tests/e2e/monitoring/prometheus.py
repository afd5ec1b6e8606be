"""A real Prometheus (Debian's package) that scrapes a running service every second."""

import math
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from monitoring.__main__ import CHART
from tests.tools import find_tool

_START_SECONDS = 30
_STOP_SECONDS = 10
NAMESPACE = "live"
"""Value of the label `namespace`, which Kubernetes would set."""


@dataclass(frozen=True)
class Series:
    """One series of a result.

    Attributes:
        labels: Including its name, if it has one.
        points: Unix times and values; a single one for an instant query.
    """

    labels: dict[str, str]
    points: tuple[tuple[float, float], ...]

    @property
    def has_numbers(self) -> bool:
        """Whether any value is finite; 0 / 0 is not."""
        return any(math.isfinite(value) for _, value in self.points)


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus."""

    client: httpx.Client

    def query(self, promql: str, *, at: float | None = None) -> list[Series]:
        """Return a query's result at one time, by default now."""
        asked = {"query": promql, **({} if at is None else {"time": f"{at:.3f}"})}
        found = self._ask("/api/v1/query", asked)
        if found["resultType"] == "scalar":
            return [_series({}, [found["result"]])]
        return [_series(each["metric"], [each["value"]]) for each in found["result"]]

    def query_range(self, promql: str, *, first: float, last: float, step: float) -> list[Series]:
        """Return a query's result over a time range."""
        asked = {"query": promql, "start": f"{first:.3f}", "end": f"{last:.3f}", "step": f"{step}"}
        found = self._ask("/api/v1/query_range", asked)
        return [_series(each["metric"], each["values"]) for each in found["result"]]

    def exemplars(self, promql: str, *, first: float, last: float) -> list[dict[str, Any]]:
        """Return the exemplars of a query's series: labels, value, timestamp."""
        asked = {"query": promql, "start": f"{first:.3f}", "end": f"{last:.3f}"}
        found = self._ask("/api/v1/query_exemplars", asked)
        return [exemplar for series in found for exemplar in series["exemplars"]]

    def rules(self) -> list[dict[str, Any]]:
        """Return every rule with its health, and the state of alerts."""
        return [
            rule for group in self._ask("/api/v1/rules", {})["groups"] for rule in group["rules"]
        ]

    def wait_for(self, promql: str, *, seconds: float = 15) -> None:
        """Wait until a query returns data."""
        deadline = time.monotonic() + seconds
        while not self.query(promql):
            assert time.monotonic() < deadline, f"no data after {seconds} s: {promql}"
            time.sleep(0.2)

    def _ask(self, path: str, asked: dict[str, str]) -> Any:
        answer = self.client.get(path, params=asked).json()
        assert answer["status"] == "success", f"{asked}: {answer.get('error')}"
        return answer["data"]


@contextmanager
def running_prometheus(
    folder: Path, service_url: str, pages: Sequence[str] = ("/metrics", "/metrics/worker")
) -> Iterator[Prometheus]:
    """Scrape a gateway and the worker behind it, with the chart's rules evaluated every second.

    Args:
        folder: For the configuration, the data and the log.
        service_url: URL of the gateway, which also serves its worker's metrics.
        pages: Paths to scrape.
    """
    command = find_tool("prometheus")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    config, log = folder / "prometheus.yaml", folder / "prometheus.log"
    config.write_text(yaml.safe_dump(_configuration(service_url, pages)), encoding="utf-8")
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        process = subprocess.Popen(
            [command, f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
             f"--web.listen-address={address}", "--enable-feature=exemplar-storage"],
            stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        stack.callback(_stop, process)
        _wait_until(lambda: _listens(address), process, log)
        client = stack.enter_context(httpx.Client(base_url=f"http://{address}", timeout=10))
        # The port opens before Prometheus is ready.
        _wait_until(lambda: client.get("/-/ready").status_code == 200, process, log)
        prometheus = Prometheus(client)
        prometheus.wait_for(f"count(up == 1) == {len(pages)}")
        yield prometheus


def _configuration(service_url: str, pages: Sequence[str]) -> dict[str, Any]:
    target = {"targets": [service_url.removeprefix("http://")], "labels": {"namespace": NAMESPACE}}
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(CHART / "rules" / "*.yaml")],
        "scrape_configs": [
            {"job_name": page, "metrics_path": page, "static_configs": [target]} for page in pages
        ],
    }


def _listens(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def _wait_until(is_so: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not is_so():
        assert process.poll() is None, log.read_text(encoding="utf-8")
        assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
        time.sleep(0.05)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _series(labels: dict[str, str], points: list[tuple[float, str]]) -> Series:
    return Series(labels, tuple((float(when), float(value)) for when, value in points))
