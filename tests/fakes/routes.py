"""Which answer a path gets: generation, a page, vLLM's 404 and 405, or the control of the fake."""

import asyncio
import json
from collections import deque

from pydantic import ValidationError

from tests.fakes import pages, refusals
from tests.fakes.http_connection import Answering, HttpConnection
from tests.fakes.inference import PATHS, Inference
from tests.fakes.reply import JsonDict, compact
from tests.fakes.state import RecordedRequest, StateChange, WorkerState

_POST_PATHS = PATHS | {path for method, path in pages.JSON_PAGES if method == "POST"}
_GET_PATHS = {path for method, path in pages.JSON_PAGES if method == "GET"} | {
    "/health",
    "/metrics",
}


class Routes:
    """Every path of the fake worker.

    Args:
        state: Settings and counters of the worker.
        recorded: Takes each request to an endpoint that generates.
        tokenized: Takes each request to `/tokenize`.
    """

    def __init__(
        self,
        state: WorkerState,
        recorded: deque[RecordedRequest],
        tokenized: deque[RecordedRequest],
    ) -> None:
        self._state = state
        self._recorded = recorded
        self._tokenized = tokenized
        self._inference = Inference(state)

    def serve(self, request: RecordedRequest, connection: HttpConnection) -> Answering | None:
        """Answer at once, or return the coroutine that will."""
        method, path = request.method, request.path
        self._state.paths[path] += 1
        if path in PATHS and method == "POST":
            self._recorded.append(request)
            if self._state.drop_next_answers:
                self._state.drop_next_answers -= 1
                return connection.drop(reset=False)
            return self._inference.answer(request, connection)
        if path.startswith("/_fake/"):
            self._control(request, connection)
        elif (method, path) == ("POST", "/tokenize"):
            self._tokenized.append(request)
            return self._tokenize(connection, request)
        elif (method, path) == ("GET", "/speculation") and self._state.reporting != "works":
            return self._report_badly(connection, request)
        elif (page := pages.JSON_PAGES.get((method, path))) is not None:
            self._send_page(connection, request, page)
        elif (method, path) == ("GET", "/health"):
            return self._health(connection)
        elif (method, path) == ("GET", "/metrics"):
            kind = {"content-type": "text/plain; version=1.0.0; charset=utf-8"}
            connection.send_body(200, pages.metrics_text(self._state), kind)
        elif path in _POST_PATHS or path in _GET_PATHS:
            allow = {"allow": "POST" if path in _POST_PATHS else "GET"}
            connection.send_error(405, refusals.METHOD_NOT_ALLOWED, allow)
        else:
            connection.send_error(404, refusals.NOT_FOUND, {})
        return None

    def _send_page(
        self, connection: HttpConnection, request: RecordedRequest, page: pages.Page
    ) -> None:
        try:
            body = page(self._state, request.body)
        except (KeyError, TypeError, ValueError) as error:
            refusal = refusals.invalid_body(str(error))
            connection.send_error(refusal.status, refusal.body, {})
            return
        connection.send_json(compact(body).encode())

    async def _tokenize(self, connection: HttpConnection, request: RecordedRequest) -> None:
        match self._state.tokenizing:
            case "works":
                self._send_page(connection, request, pages.tokenize)
            case "fails":
                refusal = refusals.scripted(request.path, 500, None)
                connection.send_error(refusal.status, refusal.body, {})
            case "hangs":
                await asyncio.Event().wait()  # until the peer leaves or the worker stops
            case "garbled":
                connection.send_json(b'{"tokens":[1,')
            case "odd":
                connection.send_json(b'{"count":1,"tokens":["a"]}')
            case "drops":
                await connection.drop(reset=False)

    async def _report_badly(self, connection: HttpConnection, request: RecordedRequest) -> None:
        match self._state.reporting:
            case "fails":
                refusal = refusals.scripted(request.path, 500, None)
                connection.send_error(refusal.status, refusal.body, {})
            case "hangs":
                await asyncio.Event().wait()  # until the peer leaves or the worker stops
            case "garbled":
                connection.send_json(b'{"engines":[1,')
            case "odd":
                connection.send_json(b'{"engines":[{"engine":0,"gate":{"price":NaN}}]}')

    async def _health(self, connection: HttpConnection) -> None:
        if self._state.health_delay_seconds:
            await asyncio.sleep(self._state.health_delay_seconds)
        connection.send_body(self._state.health_status, b"", {})

    def _control(self, request: RecordedRequest, connection: HttpConnection) -> None:
        what = (request.method, request.path)
        if what == ("POST", "/_fake/state"):
            try:
                self._state.apply(StateChange.model_validate_json(request.body))
            except ValidationError as error:
                refusal = refusals.invalid_script(str(error))
                connection.send_error(refusal.status, refusal.body, {})
                return
        elif what == ("DELETE", "/_fake/requests"):
            self._recorded.clear()
        if request.path == "/_fake/requests":
            body: JsonDict = {"requests": [_as_json(recorded) for recorded in self._recorded]}
        elif request.path == "/_fake/state":
            body = self._state.as_json()
        else:
            connection.send_error(404, refusals.NOT_FOUND, {})
            return
        connection.send_json(json.dumps(body).encode())


def _as_json(request: RecordedRequest) -> JsonDict:
    names = ("method", "path", "headers", "received_at", "chunks_sent", "finished", "aborted")
    shown = {name: getattr(request, name) for name in (*names, "aborted_at")}
    return shown | {"body": request.body.decode(errors="backslashreplace")}
