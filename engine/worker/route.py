"""`GET /speculation` on the worker's own server, added as a middleware of vLLM."""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from engine.worker.report import read_reports, report_folder

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[_Message, _Receive, _Send], Awaitable[None]]

PATH = "/speculation"
MIDDLEWARE = "engine.worker.route.SpeculationRoute"
"""The value for vLLM's option `middleware`."""


class SpeculationRoute:
    """ASGI middleware that answers one path and passes everything else on unchanged."""

    def __init__(self, app: _App) -> None:
        self._app = app
        self._folder = report_folder()

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Answer the request, or pass it on."""
        if (
            scope["type"] != "http"
            or scope["path"] != PATH
            or scope["method"] != "GET"
            or self._folder is None
        ):
            await self._app(scope, receive, send)
            return
        found = await asyncio.to_thread(read_reports, self._folder)
        body = json.dumps(found).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
