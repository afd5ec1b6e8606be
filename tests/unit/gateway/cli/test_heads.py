"""`specgate heads` against a scripted gateway."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import main
from tests.unit.gateway.cli.scripted import Request, serving

SERVING = {"version": "0a1b2c3d4e5f", "name": "shipped", "max_draft_tokens": 3}
BESIDE = {
    **SERVING, "version": "f0e1", "name": "new", "role": "challenger", "pairs": 256,
    "most_pairs": 1280, "worth": 0.0834,
}  # fmt: skip


class Gateway:
    """Answers commands with id 7, and tells one state after the other.

    Attributes:
        requests: Method, path, key and body of each request.
        states: What `GET /heads` says of the command, in turn; the last one from then on.
        refusal: Message of a 403 for every request.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str | None, Any]] = []
        self.states: list[str] = ["adopted"]
        self.refusal: str | None = None
        self.url = ""

    def answer(self, method: str) -> tuple[int, Any]:
        if self.refusal is not None:
            return 403, {"error": {"message": self.refusal}}
        if method != "GET":
            broken = {"worker": "w2", "error": "The engine could not be reached."}
            return 202, {"workers": [{"worker": "w1", "id": "7"}, broken][: 1 + (method == "PUT")]}
        changes = []
        if any(done != "GET" for done, *_ in self.requests):
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            change = {"id": "7", "state": state, "version": "f0e1", "why": "measured"}
            changes = [] if state == "unread" else [change]
        heads = {"serving": SERVING, "beside": BESIDE, "changes": changes}
        return 200, {"workers": [{"worker": "w1", "engines": [{"engine": 0, "heads": heads}]}]}


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    scripted = Gateway()

    def answer(request: Request) -> tuple[int, bytes]:
        body = json.loads(request.body) if request.body else None
        scripted.requests.append((request.method, request.path, request.key, body))
        status, found = scripted.answer(request.method)
        return status, json.dumps(found).encode()

    with serving(answer) as scripted.url:
        yield scripted


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("gateway.cli.heads._POLL_SECONDS", 0.01)


def test_heads_are_listed_as_a_table(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heads", "list", "--url", gateway.url, "--model", "a b"]) == 0

    assert gateway.requests == [("GET", "/heads?model=a+b", None, None)]
    assert capsys.readouterr().out.splitlines() == [
        "WORKER  ENGINE  ROLE        VERSION       NAME     PAIRS     WORTH",
        "w1      0       serving     0a1b2c3d4e5f  shipped  -         -",
        "w1      0       challenger  f0e1          new      256/1280  +0.083",
    ]


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body"),
    [
        (["load", "/heads/new"], "POST", "/heads", {"folder": "/heads/new"}),
        (["load", "/h", "--model", "m"], "POST", "/heads", {"folder": "/h", "model": "m"}),
        (["unload"], "DELETE", "/heads", None),
        (["forget"], "POST", "/heads/forget", {}),
        (["forget-traffic", "acme"], "DELETE", "/heads/traffic?tenant=acme", None),
        (["forget-traffic", "--all"], "DELETE", "/heads/traffic", None),
    ],
)
def test_a_command_is_sent(
    gateway: Gateway,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    method: str,
    path: str,
    body: Any,
) -> None:
    assert main(["heads", *arguments, "--url", gateway.url]) == 0

    assert gateway.requests == [(method, path, None, body)]
    assert capsys.readouterr().out == "w1  command 7 was accepted\n"


def test_it_waits_for_the_outcome(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    gateway.states = ["unread", "loading", "trial", "trial", "adopted"]

    assert main(["heads", "load", "/heads/new", "--wait", "--url", gateway.url]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "w1  engine 0  f0e1  loading: measured",
        "w1  engine 0  f0e1  trial: measured",
        "w1  engine 0  f0e1  adopted: measured",
    ]


def test_a_refused_head_exits_with_1(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    gateway.states = ["refused"]

    assert main(["heads", "load", "/heads/new", "--wait", "--url", gateway.url]) == 1


@pytest.mark.parametrize("source", ["file", "environment"])
def test_the_key_is_presented(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str
) -> None:
    options = []
    if source == "file":
        (tmp_path / "key").write_text("sg-secret\n", encoding="utf-8")
        options = ["--key-file", str(tmp_path / "key")]
    else:
        monkeypatch.setenv("OPENAI_API_KEY", "sg-secret")

    main(["heads", "list", "--url", gateway.url, *options])

    assert gateway.requests[0][2] == "Bearer sg-secret"


def test_a_refusal_of_the_gateway_is_shown(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.refusal = "This needs an administrator's key."

    assert main(["heads", "unload", "--url", gateway.url]) == 1
    expected = f"{gateway.url}: This needs an administrator's key.\n"
    assert capsys.readouterr().err == expected


def test_a_gateway_that_is_not_there_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heads", "list", "--url", "http://127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith("http://127.0.0.1:1: ")


def test_the_profile_says_where_the_gateway_is(
    gateway: Gateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "profile.yaml"
    port = gateway.url.rpartition(":")[2]
    text = f"gateway: {{host: 127.0.0.1, port: {port}, workers: ['http://127.0.0.1:1']}}"
    profile.write_text(text, encoding="utf-8")

    assert main(["heads", "list", "--config", str(profile)]) == 0
