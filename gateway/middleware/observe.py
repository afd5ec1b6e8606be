"""Give each request an id; when it ends, write one access line and count it.

This is the outermost middleware, so it also answers exceptions that nothing else handled.
"""

import asyncio
import re
import time
import uuid
from collections.abc import Callable, Collection

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.errors import InternalError
from gateway.protocol import error_body
from gateway.types import Headers, RequestId, RequestRecord, Trace

log = structlog.get_logger("gateway.access")

RECORD = "specgate.record"
"""Key of the `RequestRecord` in the ASGI scope."""

_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_CLIENT_GONE = 499
_MOST_PATH_CHARACTERS = 100


class Observe:
    """Wraps the whole app.

    Args:
        app: What it wraps.
        endpoints: Paths that may become a metric label; all others are `other`.
        quiet: Paths that are not counted and whose access line has debug level.
        count: Called with the record of a request that ended, and the time.
        begin_trace: Called with method, endpoint and headers of a request that is not quiet;
            None: no request is traced.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        endpoints: Collection[str],
        quiet: Collection[str],
        count: Callable[[RequestRecord, float], None],
        begin_trace: Callable[[str, str, Headers], Trace] | None = None,
    ) -> None:
        self._app = app
        self._endpoints = frozenset(endpoints)
        self._quiet = frozenset(quiet)
        self._count = count
        self._begin_trace = begin_trace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app with a record in its scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = self._begin(scope)
        request_id = record.request_id.encode()
        started = False

        async def observed(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                record.status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id)]
            await send(message)

        try:
            await self._app(scope, receive, observed)
        except asyncio.CancelledError:
            record.outcome = record.outcome or "cancelled"  # the server stopped waiting for it
            raise
        except Exception:  # no handler below this one exists
            log.exception("request_crashed", path=record.endpoint)
            error = InternalError("The server had an error while processing your request.")
            record.note_failure(error.status, error.outcome, error.code, error.reason)
            if not started:
                await _answer(observed, error)
        finally:
            self._end(record, scope["path"])

    def _begin(self, scope: Scope) -> RequestRecord:
        sent = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        known = _ID.fullmatch(sent) is not None
        request_id = RequestId(sent.decode() if known else uuid.uuid4().hex)
        path = scope["path"]
        record = scope[RECORD] = RequestRecord(
            request_id=request_id,
            endpoint=path if path in self._endpoints or path in self._quiet else "other",
            method=scope["method"],
            started_seconds=time.monotonic(),
        )
        structlog.contextvars.bind_contextvars(request_id=request_id)
        if self._begin_trace is not None and record.endpoint not in self._quiet:
            record.trace = self._begin_trace(record.method, record.endpoint, scope["headers"])
            structlog.contextvars.bind_contextvars(trace_id=record.trace.trace_id)
        return record

    def _end(self, record: RequestRecord, path: str) -> None:
        now = time.monotonic()
        if record.outcome is None:
            record.outcome = "completed" if 0 < record.status < 400 else "cancelled"
        if record.endpoint in self._quiet:
            log.debug("request", path=record.endpoint, status=record.status)
            return
        self._count(record, now)
        log.info("request", **_facts(record, now, path))
        record.trace.end(record)


def _facts(record: RequestRecord, now: float, path: str) -> dict[str, object]:
    """The fields of the access line, without anything of prompt or answer."""
    facts: dict[str, object] = {
        "method": record.method,
        "path": _printable(path),
        "status": record.status or _CLIENT_GONE,
        "outcome": record.outcome,
        "duration_seconds": round(now - record.started_seconds, 4),
        "model": record.model,
        "worker": record.worker,
        "tenant": record.tenant,
        "key": record.key_id,
        "stream": record.stream,
        "attempts": record.attempts,
        "queued_seconds": round(record.queued_seconds, 4),
        "error_code": record.error_code,
        "reason": record.reason,
    }
    if record.first_token_seconds is not None:
        facts["ttft_seconds"] = round(record.first_token_seconds - record.started_seconds, 4)
    if record.usage is not None:
        facts["tokens_in"] = record.usage.prompt_tokens
        facts["tokens_out"] = record.usage.completion_tokens
        facts["tokens_cached"] = record.usage.cached_tokens
    if record.acceptance is not None:
        facts["drafted"] = record.acceptance.drafted
        facts["accepted"] = record.acceptance.accepted
        if record.acceptance.length is not None:
            facts["acceptance_length"] = round(record.acceptance.length, 3)
    return {name: value for name, value in facts.items() if value is not None}


def _printable(path: str) -> str:
    """A path as the log may show it: any client may send any bytes, decoded, of any length."""
    return path[:_MOST_PATH_CHARACTERS].encode("unicode_escape").decode()[:_MOST_PATH_CHARACTERS]


async def _answer(send: Send, error: InternalError) -> None:
    body = error_body(error)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
