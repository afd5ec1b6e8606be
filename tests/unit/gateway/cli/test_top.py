"""`specgate top` without a terminal, against a scripted gateway; tests/integration has one."""

import json
from collections.abc import Iterator

import pytest

from gateway.cli import main
from tests.unit.gateway.cli.pages import VERDICT, raw_page
from tests.unit.gateway.cli.scripted import Request, serving


class Gateway:
    """Answers every GET.

    Attributes:
        answer: Status and body.
        paths: Asked for so far.
    """

    def __init__(self) -> None:
        self.answer = (200, json.dumps(raw_page()).encode())
        self.paths: list[str] = []
        self.url = ""


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    scripted = Gateway()

    def answer(request: Request) -> tuple[int, bytes]:
        scripted.paths.append(request.path)
        return scripted.answer

    with serving(answer) as scripted.url:
        yield scripted


@pytest.mark.parametrize("options", [[], ["--once"]], ids=["pipe", "once"])
def test_without_a_terminal_it_prints_one_frame(
    gateway: Gateway, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert main(["top", "--url", gateway.url, *options]) == 0

    out = capsys.readouterr().out
    assert out.startswith(f"specgate 0.2.0  {gateway.url}")
    assert VERDICT in out
    assert "\x1b" not in out
    assert gateway.paths == ["/live"]


@pytest.mark.parametrize(
    "answer",
    [(404, b'{"detail":"Not Found"}'), (200, b"<html>"), (200, b"{}"), (200, b"")],
    ids=["older", "other-server", "other-json", "empty"],
)
def test_what_is_no_gateway_is_said(
    gateway: Gateway, capsys: pytest.CaptureFixture[str], answer: tuple[int, bytes]
) -> None:
    gateway.answer = answer

    assert main(["top", "--url", gateway.url]) == 1
    expected = f"answered {answer[0]} on /live; is this a specgate?"
    assert capsys.readouterr().err == f"{gateway.url}: {expected}\n"


def test_a_gateway_that_is_not_there_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--once", "--url", "http://127.0.0.1:1"]) == 1

    captured = capsys.readouterr()
    assert captured.err.startswith("http://127.0.0.1:1: ")
    assert captured.out == ""
