import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from tests.unit.helm.chart import CHART

SCRIPT = CHART / "files" / "drain.py"
QUIET = (0, 0)


def page(running: int, waiting: int) -> bytes:
    """As vLLM 0.32 writes it; the last line counts the waiting ones again."""
    label = '{engine="0",model_name="m"}'
    return (
        f"# HELP vllm:num_requests_running Running.\n"
        f"vllm:num_requests_running{label} {running}.0\n"
        f"vllm:num_requests_waiting{label} {waiting}.0\n"
        f'vllm:num_requests_waiting_by_reason{{engine="0",reason="capacity"}} {waiting + 7}.0\n'
    ).encode()


@contextmanager
def worker(*looks: tuple[int, int]) -> Iterator[tuple[str, list[str]]]:
    """Answers each look with the next load, and the last one again and again."""
    left, asked = list(looks), []

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = page(*(left.pop(0) if len(left) > 1 else left[0]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Pages)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Sleeps take no time, but the clock believes them."""
    sleeps: list[float] = []
    monkeypatch.setattr("time.sleep", sleeps.append)
    monkeypatch.setattr("time.monotonic", lambda: sum(sleeps))
    return sleeps


def drained(url: str, *, removal_seconds: float = 40, finish_seconds: float = 10) -> bool:
    drain = runpy.run_path(str(SCRIPT))["drain"]
    done = drain(url, removal_seconds=removal_seconds, finish_seconds=finish_seconds)
    assert isinstance(done, bool)
    return done


def test_it_waits_before_it_looks_then_until_nothing_runs_or_waits(slept: list[float]) -> None:
    with worker((2, 0), (0, 1), QUIET) as (url, asked):
        assert drained(url)

    assert slept[0] == 40
    assert len(asked) == 3


def test_it_gives_up_when_the_time_is_over(slept: list[float]) -> None:
    with worker((1, 0)) as (url, asked):
        assert not drained(url, finish_seconds=10)

    assert sum(slept) == pytest.approx(50)
    assert len(asked) == 21


def test_a_worker_that_is_gone_has_nothing_to_finish(slept: list[float]) -> None:
    with worker(QUIET) as (url, _):
        pass

    assert drained(url)

    assert slept == [40]


def test_the_command_ends_well_and_says_what_is_cut_off() -> None:
    with worker((1, 0)) as (url, _):
        done = subprocess.run(
            [sys.executable, SCRIPT, f"--url={url}", "--removal-seconds=0", "--finish-seconds=0"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )

    assert done.returncode == 0
    assert done.stderr == "drain: requests are still running and will be aborted\n"


def test_it_needs_nothing_but_python() -> None:
    lines = SCRIPT.read_text(encoding="utf-8").splitlines()
    imported = {
        line.split()[1].split(".")[0] for line in lines if line.startswith(("import ", "from "))
    }

    assert imported <= sys.stdlib_module_names
