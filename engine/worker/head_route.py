"""`POST /heads` of a worker: passes a command about draft heads on to the ranks that draft.

It answers with the command's id; `GET /speculation` says under `heads` what became of it. The
gateway lets only administrators through. Where vLLM's server has a key, this path needs it too.
"""

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from pydantic import ValidationError

from engine.config import process_environment
from engine.worker.head_commands import HeadCommand, write_command
from engine.worker.report import report_folder

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[_Message, _Receive, _Send], Awaitable[None]]

PATH = "/heads"
MIDDLEWARE = "engine.worker.head_route.HeadsRoute"
"""The value for vLLM's option `middleware`."""

_MOST_BYTES = 1 << 16


class HeadsRoute:
    """Middleware of vLLM's server that answers one path and passes everything else on unchanged."""

    def __init__(self, app: _App) -> None:
        self._app = app
        self._folder = report_folder()
        self._key = process_environment().get("VLLM_API_KEY")

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Answer the request, or pass it on."""
        if (
            scope["type"] != "http"
            or scope["path"] != PATH
            or scope["method"] != "POST"
            or self._folder is None
        ):
            await self._app(scope, receive, send)
            return
        status, found = await self._answer(dict(scope["headers"]), receive)
        body = json.dumps(found).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(
        self, headers: dict[bytes, bytes], receive: _Receive
    ) -> tuple[int, dict[str, Any]]:
        expected = f"Bearer {self._key}".encode()
        if self._key and not hmac.compare_digest(headers.get(b"authorization", b""), expected):
            return 401, _error("Incorrect API key provided.", "authentication_error")
        body = await _read(receive)
        if body is None:
            return 413, _error(f"The body is larger than {_MOST_BYTES} bytes.")
        try:
            command = HeadCommand.model_validate_json(body)
        except ValidationError as exc:
            first = exc.errors()[0]
            where = ".".join(map(str, first["loc"]))
            message = first["msg"].removeprefix("Value error, ")
            return 400, _error(f"{where}: {message}" if where else message)
        assert self._folder is not None
        return 200, {"id": await asyncio.to_thread(write_command, self._folder, command)}


async def _read(receive: _Receive) -> bytes | None:
    """Return the body; None if it is too long."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > _MOST_BYTES:
            return None
    return body


def _error(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}
