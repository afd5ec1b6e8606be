"""Capture the gateway's JSON log in a test; restores pytest's logging afterwards."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import Any

import structlog

from gateway.telemetry import configure_logging


class JsonLog:
    """The log lines so far."""

    def __init__(self) -> None:
        self.buffer = StringIO()

    @property
    def text(self) -> str:
        """The raw log."""
        return self.buffer.getvalue()

    def lines(self) -> list[dict[str, Any]]:
        """All lines, parsed."""
        return [json.loads(line) for line in self.text.split("\n") if line]

    def of(self, event: str) -> list[dict[str, Any]]:
        """The lines of one event."""
        return [line for line in self.lines() if line["event"] == event]


@contextmanager
def json_log(level: str = "debug") -> Iterator[JsonLog]:
    """Log as the gateway does in production."""
    root, log = logging.getLogger(), JsonLog()
    before = root.handlers[:], root.level
    with redirect_stderr(log.buffer):
        configure_logging(log_format="json", level=level)
        # Otherwise a module's logger would keep writing to the log of the first test.
        structlog.configure(cache_logger_on_first_use=False)
    try:
        yield log
    finally:
        root.handlers, root.level = before
        structlog.reset_defaults()
        structlog.contextvars.clear_contextvars()
