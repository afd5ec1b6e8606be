import asyncio
import shlex
from json import loads
from pathlib import Path

import pytest

from gateway.cli.announce import Announcer
from tests.integration.waiting import eventually
from tests.unit.gateway.canned_server import CannedServer, ok
from tests.unit.gateway.upstream.workers import make_worker, pool_of
from tests.unit.gateway.virtual_time import run_in_virtual_time

URL = "http://127.0.0.1:8000"


def announced(
    *, log_file: Path | None = None, keys: bool = False, page: bool = False, after: float = 0
) -> None:
    """Announce a gateway whose worker is up after so many virtual seconds."""

    async def scenario() -> None:
        worker = make_worker("w")
        worker.models = {"my-model": {}}
        async with pool_of([worker]) as pool:
            asyncio.get_running_loop().call_later(after, pool.mark_up, worker)
            await Announcer(URL, log_file=log_file, keys=keys, page=page).watch_pool(pool)

    run_in_virtual_time(scenario())


def test_an_example_request_is_shown_when_ready(capsys: pytest.CaptureFixture[str]) -> None:
    announced()

    text = capsys.readouterr().err
    assert f"on {URL}/v1\n" in text
    command = shlex.split(text.partition("curl")[2].replace("\\\n", ""))
    assert command[:2] == ["-N", f"{URL}/v1/chat/completions"]
    assert loads(command[-1])["model"] == "my-model"
    assert "authorization" not in text


def test_with_keys_the_example_request_has_a_key_header(
    capsys: pytest.CaptureFixture[str],
) -> None:
    announced(keys=True)

    assert "-H 'authorization: Bearer YOUR_KEY'" in capsys.readouterr().err


@pytest.mark.parametrize("page", [True, False])
def test_the_page_is_named_if_there_is_one(capsys: pytest.CaptureFixture[str], page: bool) -> None:
    announced(page=page)

    assert (f"a page to try it is on {URL}/\n" in capsys.readouterr().err) == page


def test_the_workers_log_file_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    announced(log_file=Path("/tmp/w.log"))

    assert "the worker's output goes to /tmp/w.log\n" in capsys.readouterr().err


def test_a_terminal_shows_a_spinner(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    announced(after=1.1)

    text = capsys.readouterr().err
    assert text.count("waiting for a worker") == 6
    assert {"\r/", "\r-", "\r\\", "\r|"} <= {text[at : at + 2] for at in range(len(text))}
    assert "\r\033[K" in text


def test_a_log_gets_a_line_at_intervals(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(0, 1000, 4))
    monkeypatch.setattr("gateway.cli.announce.time.monotonic", lambda: float(next(seconds)))

    announced(after=1.1)

    assert capsys.readouterr().err.count("specgate: waiting for a worker") == 2


def workers(*, up: str) -> bytes:
    """An answer of `/health/workers`."""
    body = b'{"workers":[{"up":false,"models":["old"]},{"up":%b,"models":["my-model"]}]}'
    return ok(body % up.encode(), b"connection: close")


async def test_a_gateway_in_other_processes_is_asked_until_it_is_ready(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.cli.announce._TERMINAL_SECONDS", 0.01)
    async with CannedServer() as server:  # closes connections, as a process that starts may
        announcer = Announcer(server.url, log_file=None, keys=False)
        watching = asyncio.create_task(announcer.watch_url())
        await eventually(lambda: len(server.requests) > 1)
        server.answer = workers(up="false")
        asked = len(server.requests)
        await eventually(lambda: len(server.requests) > asked + 1)
        assert not watching.done()

        server.answer = workers(up="true")
        await watching

    assert server.requests[-1].startswith(b"GET /health/workers ")
    assert '"model": "my-model"' in capsys.readouterr().err
