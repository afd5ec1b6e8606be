"""One log format for structlog, uvicorn and the standard library."""

import logging
import sys
from typing import Literal

import structlog
from structlog.typing import Processor

LogFormat = Literal["auto", "json", "console"]


def configure_logging(*, log_format: LogFormat, level: str) -> None:
    """Send every log line of the process to stderr in one format.

    Args:
        log_format: `json`, `console`, or `auto`: console on a terminal, else JSON.
        level: Name of the lowest level shown.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    renderer: list[Processor] = (
        # structlog's own tracebacks show local variables, and so prompts and keys.
        [
            structlog.dev.ConsoleRenderer(
                pad_event_to=24, exception_formatter=structlog.dev.plain_traceback
            )
        ]
        if console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    # Our own lines do not go through `logging`, which saves a third of an access line's cost.
    structlog.configure(
        processors=[*shared, *renderer],
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = []
        logger.propagate = name != "uvicorn.access"  # we write our own access line
    for name in ("uvicorn.error", "httpx", "httpcore"):  # these log every request and more
        logging.getLogger(name).setLevel(logging.WARNING)
