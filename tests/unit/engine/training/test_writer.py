"""A writer with a stand-in for the worker: a small script replaces our interpreter."""

import asyncio
import json
import stat
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from engine.errors import TrainingError
from engine.training import writer as writer_module
from engine.training.writer import starting_writer

WORKER = """\
import http.server, json, os, socketserver, sys

arguments = sys.argv[1:]
assert arguments[:2] == ["-m", "engine"] and arguments[-1] == "--die-with-parent", arguments
profile = open(arguments[arguments.index("--config") + 1]).read()
print(json.dumps([profile, sorted(os.environ)]), flush=True)
if {dies}:
    sys.exit("no model")


class Worker(http.server.BaseHTTPRequestHandler):
    health = 0
    has_closed = False

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self):
        return "stand-in"

    def do_GET(self):
        Worker.health += 1
        self.reply(503 if Worker.health == 1 else 200, b"")

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if asked["max_tokens"] == 400:
            return self.reply(400, b"too long")
        if asked["max_tokens"] == 7 and not Worker.has_closed:
            Worker.has_closed = self.close_connection = True
            return None
        written = [*asked["prompt"], asked["max_tokens"], asked["temperature"], asked["model"]]
        reason = "stop" if asked["max_tokens"] else "length"
        choice = {{"token_ids": written, "finish_reason": reason}}
        assert asked["return_token_ids"] is True
        self.reply(200, json.dumps({{"choices": [choice]}}).encode())


socketserver.UnixStreamServer(arguments[arguments.index("--uds") + 1], Worker).serve_forever()
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "worker.log"


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, dies: bool = False) -> None:
    path = tmp_path / "python"
    path.write_text(f"#!{sys.executable}\n{WORKER.format(dies=dies)}", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(path))
    monkeypatch.setattr(writer_module, "_POLL_SECONDS", 0.01)


def stand_ins(tmp_path: Path) -> list[psutil.Process]:
    """Return our running stand-ins; other children belong to other tests."""
    children = psutil.Process().children()
    return [child for child in children if str(tmp_path / "python") in child.cmdline()]


def read(log: Path) -> str:
    return log.read_text(encoding="utf-8")


def first_line(log: Path) -> Any:
    return json.loads(read(log).splitlines()[0])


async def test_the_worker_is_asked_and_then_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    stand_in(tmp_path, monkeypatch)

    async with starting_writer({"model": "m"}, model="served", log=log) as writer:
        whole = await writer.write([1, 2], most=9, temperature=0.5)
        cut = await writer.write([3], most=0, temperature=1.0)
        (worker,) = stand_ins(tmp_path)

    assert whole == ([1, 2, 9, 0.5, "served"], True)
    assert cut == ([3, 0, 1.0, "served"], False)
    assert yaml.safe_load(first_line(log)[0]) == {"engine": {"model": "m"}}
    assert not worker.is_running()


async def test_a_connection_that_closes_as_it_is_used_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    stand_in(tmp_path, monkeypatch)

    async with starting_writer({}, model="served", log=log) as writer:
        written, _ = await writer.write([1], most=7, temperature=1.0)

    assert written == [1, 7, 1.0, "served"]


async def test_a_killed_worker_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    stand_in(tmp_path, monkeypatch)

    async with starting_writer({}, model="m", log=log) as writer:
        (worker,) = stand_ins(tmp_path)
        worker.kill()
        with pytest.raises(TrainingError, match="failed"):
            await writer.write([1], most=1, temperature=1.0)


async def test_a_worker_that_fails_to_start_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    stand_in(tmp_path, monkeypatch, dies=True)

    with pytest.raises(TrainingError, match=f"did not start; see {log}"):
        async with starting_writer({}, model="m", log=log):
            raise AssertionError("it started")

    assert "no model" in read(log)


async def test_the_worker_gets_no_variables_of_torchrun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    stand_in(tmp_path, monkeypatch)
    for name in ("RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "TORCHELASTIC_RUN_ID", "CUDA_X"):
        monkeypatch.setenv(name, "1")

    async with starting_writer({}, model="m", log=log):
        await asyncio.sleep(0)

    seen = set(first_line(log)[1])
    assert not seen & {"RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "TORCHELASTIC_RUN_ID"}
    assert "CUDA_X" in seen
