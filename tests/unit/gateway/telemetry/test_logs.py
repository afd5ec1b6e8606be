import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from gateway.telemetry import configure_logging
from gateway.telemetry.logs import LogFormat
from tests.unit.gateway.json_log import JsonLog, json_log


@pytest.fixture
def log() -> Iterator[JsonLog]:
    with json_log("info") as configured:
        yield configured


def test_all_libraries_log_in_one_format(log: JsonLog) -> None:
    structlog.get_logger("ours").warning("worker_down", worker="w")
    logging.getLogger("uvicorn.error").warning("theirs %s", "too")
    logging.getLogger("asyncio").error("slow")

    assert [(line["event"], line["level"]) for line in log.lines()] == [
        ("worker_down", "warning"),
        ("theirs too", "warning"),
        ("slow", "error"),
    ]
    assert all(line["timestamp"].endswith("Z") for line in log.lines())


def test_each_line_carries_its_request_id(log: JsonLog) -> None:
    with structlog.contextvars.bound_contextvars(request_id="r1"):
        structlog.get_logger("ours").info("request")
        logging.getLogger("aiohttp").warning("theirs")

    assert [line["request_id"] for line in log.lines()] == ["r1", "r1"]


def test_lines_below_the_level_are_left_out(log: JsonLog) -> None:
    structlog.get_logger("ours").debug("detail")
    logging.getLogger("uvicorn.error").info("started")
    logging.getLogger("uvicorn.access").info("GET / 200")

    assert log.lines() == []


def test_an_exception_is_one_line(log: JsonLog) -> None:
    try:
        raise ZeroDivisionError("by zero")
    except ZeroDivisionError:
        structlog.get_logger("ours").exception("request_crashed")

    (line,) = log.lines()
    assert "ZeroDivisionError: by zero" in line["exception"]


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_traceback_shows_no_local_variables(
    log: JsonLog, capsys: pytest.CaptureFixture[str], log_format: LogFormat
) -> None:
    configure_logging(log_format=log_format, level="info")
    prompt = "my " + "secret"
    try:
        raise ZeroDivisionError(len(prompt))
    except ZeroDivisionError:
        structlog.get_logger("ours").exception("request_crashed")
        logging.getLogger("asyncio").exception("callback_failed")

    text = capsys.readouterr().err
    assert text.count("ZeroDivisionError: 9") == 2
    assert "my secret" not in text


def test_a_line_break_in_a_value_is_escaped(log: JsonLog) -> None:
    structlog.get_logger("ours").info("request", path="a\nb\r\u2028")

    assert [line["path"] for line in log.lines()] == ["a\nb\r\u2028"]


@pytest.mark.parametrize(
    ("log_format", "terminal", "is_json"),
    [
        ("json", True, True),
        ("console", False, False),
        ("auto", False, True),
        ("auto", True, False),
    ],
)
def test_the_format_follows_the_setting_or_the_terminal(
    log: JsonLog,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    log_format: str,
    terminal: bool,
    is_json: bool,
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    configure_logging(log_format=log_format, level="info")  # type: ignore[arg-type]  # of the table

    structlog.get_logger("ours").info("worker_up", worker="w")

    line = capsys.readouterr().err
    assert "worker_up" in line
    assert line.startswith("{") == is_json
    assert not is_json or json.loads(line)["worker"] == "w"
