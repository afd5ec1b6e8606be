"""`specgate verify` against a scripted server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import main
from tests.unit.gateway.cli.scripted import Request, serving


class Server:
    """A specgate whose drafts change some answers.

    Attributes:
        bodies: Of all chat completions.
        wrong: Text of prompts whose drafted answer ends with another token.
        other_logprob: What the target gives that token; its own has -0.5.
        gives_logprobs: Whether it does.
        models: Names.
    """

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.wrong: set[str] = set()
        self.other_logprob = -4.0
        self.gives_logprobs = True
        self.models = ["small"]
        self.url = ""

    def answer(self, path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        if path == "/v1/models":
            return 200, {"data": [{"id": name} for name in self.models]}
        if path == "/speculation":
            return 200, {"workers": []}
        assert body is not None
        self.bodies.append(body)
        prompt = body["messages"][-1]["content"]
        if prompt == "refuse":
            return 400, {"error": {"message": "not today"}}
        drafts = body["speculation"]["mode"] == "auto"
        last = "y" if drafts and prompt in self.wrong else "x"
        tokens = [self._token("a", -0.1), self._token(last, -0.5)]
        choice = {
            "message": {"role": "assistant", "content": f"a{last}"},
            "logprobs": {"content": tokens} if self.gives_logprobs else None,
            "finish_reason": "stop",
        }
        return 200, {"choices": [choice], "usage": {"completion_tokens": 2}}

    def _token(self, text: str, logprob: float) -> dict[str, Any]:
        top = [{"token": "x", "logprob": -0.5}, {"token": "y", "logprob": self.other_logprob}]
        return {"token": text, "logprob": logprob, "top_logprobs": top}


@pytest.fixture
def server() -> Iterator[Server]:
    scripted = Server()

    def answer(request: Request) -> tuple[int, bytes]:
        body = json.loads(request.body) if request.body else None
        status, found = scripted.answer(request.path, body)
        return status, json.dumps(found).encode()

    with serving(answer) as scripted.url:
        yield scripted


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text('"one"\n{"kind": "tool", "prompt": "two"}\n"refuse"\n')
    return path


def test_identical_answers(
    server: Server, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"

    status = main(
        ["verify", "--url", f"{server.url}/", "--prompts", str(prompts), "--out", str(page)]
    )

    assert status == 0
    said = capsys.readouterr().out
    assert "2 of 2 answers are identical" in said
    assert "2 of 2 answers are identical" in page.read_text()
    assert [body["speculation"]["mode"] for body in server.bodies if body["model"] == "small"][
        :2
    ] == ["auto", "off"]


def test_a_defect_has_status_1(
    server: Server, prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.wrong = {"two"}

    assert main(["verify", "--url", server.url, "--prompts", str(prompts)]) == 1

    said = capsys.readouterr().out
    assert "defect: tool, line 2, token 2, margin 3.5" in said


def test_a_near_tie_has_status_0_unless_the_dtype_is_finer(
    server: Server, prompts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.wrong, server.other_logprob = {"one"}, -0.7
    command = ["verify", "--url", server.url, "--prompts", str(prompts), "--concurrency", "3"]

    assert main(command) == 0
    assert "near-tie: prompts, line 1, token 2, margin 0.2" in capsys.readouterr().out
    assert main([*command, "--dtype", "float32"]) == 1
    assert main([*command, "--margin", "0.1"]) == 1


def test_prompts_that_ship(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--url", server.url, "--kinds", "chat,stop"]) == 0
    said = capsys.readouterr().out
    assert "\nstop " in said
    assert "\nemoji " not in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kinds", "poems"], "no prompts of kind poems"),
        (["--prompts", "absent.jsonl"], "absent.jsonl: No such file"),
        (["--prompts", "absent.jsonl", "--kinds", "chat"], "without --prompts"),
        (["--model", "large"], "does not serve large"),
        (["--concurrency", "0"], "at least 1"),
        (["--url", "http://127.0.0.1:9"], "127.0.0.1:9"),
        (["--url", "nonsense"], "nonsense"),
        (["--kinds", "chat", "--out", "/absent/report.html"], "/absent is no folder"),
    ],
)
def test_what_cannot_be_verified_has_one_line_and_status_2(
    server: Server, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "--url", server.url, *arguments]) == 2

    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_a_server_without_logprobs(
    server: Server, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.gives_logprobs = False
    page = tmp_path / "report.html"
    command = ["verify", "--url", server.url, "--prompts", str(prompts), "--out", str(page)]

    assert main(command) == 2

    assert "no log-probabilities" in capsys.readouterr().err
    assert not page.exists()


def test_a_server_that_refuses_everything(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('"refuse"\n')

    assert main(["verify", "--url", server.url, "--prompts", str(path)]) == 2
    assert "every prompt was refused: not today" in capsys.readouterr().err
