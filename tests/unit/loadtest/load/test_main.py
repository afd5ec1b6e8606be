import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from loadtest.load.__main__ import main
from tests.fakes.worker import FakeWorker


async def run_load(*options: str) -> tuple[int, bytes, bytes]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "loadtest.load", *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode is not None
    return process.returncode, output, errors


@pytest.mark.timeout(40)
async def test_a_run_prints_its_json_last_and_writes_its_page(tmp_path: Path) -> None:
    page = tmp_path / "new" / "page.html"
    short = ("--scenario", "chat", "--seconds", "0.5", "--rate", "20", "--page", str(page))

    async with FakeWorker() as worker:
        status, output, _ = await run_load("--url", worker.url, *short)

    found = json.loads(output.splitlines()[-1])
    assert status == 0
    assert found["endings"] == {"done": found["requests"]}
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "does not answer"),
        (("--scenario", "nonesuch"), "neither a file nor"),
        (("--data", "/nonesuch"), "no prompt for"),
        (("--key-file", "/nonesuch"), "/nonesuch"),
    ],
    ids=["no server", "no scenario", "no data", "no key"],
)
def test_what_cannot_be_run_says_why(
    options: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["load", "--url", "http://127.0.0.1:9", *options])
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    status = main()

    output, errors = capsys.readouterr()
    assert (status, output) == (1, "")
    assert words in errors
