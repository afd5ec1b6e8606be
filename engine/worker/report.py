"""The report of a worker's speculation: each process writes a part, `GET /speculation` joins them.

The parts are small files in the folder that vLLM's processes share for metrics
(`PROMETHEUS_MULTIPROC_DIR`), written once a second.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from engine.config import process_environment
from engine.worker.verdicts import describe_sources

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[_Message, _Receive, _Send], Awaitable[None]]

_PREFIX = "specgate-"

PATH = "/speculation"
MIDDLEWARE = "engine.worker.report.SpeculationRoute"
"""The value for vLLM's option `middleware`."""


def report_folder() -> Path | None:
    """Return the folder of this worker's parts; None outside of a worker."""
    folder = process_environment().get("PROMETHEUS_MULTIPROC_DIR")
    return None if folder is None else Path(folder)


class ReportPart:
    """One process's part of the report.

    Args:
        folder: Where to write; None writes nothing.
        part: Name of the part, such as `gate`.
        engine: Index of the data-parallel engine that the process belongs to.
    """

    def __init__(self, folder: Path | None, part: str, engine: int) -> None:
        self._path = None if folder is None else folder / f"{_PREFIX}{engine}-{part}.json"

    def write(self, facts: Mapping[str, JsonValue]) -> None:
        """Replace the part.

        Raises:
            OSError: The file cannot be written.
        """
        if self._path is None:
            return
        beside = self._path.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(facts), encoding="utf-8")
        beside.replace(self._path)


def read_reports(folder: Path) -> dict[str, JsonValue]:
    """Join the parts of all engines: `{"engines": [{"engine": 0, <part>: {...}, ...}, ...]}`.

    Each engine also gets its `sources`: which of them draft, and why.

    Raises:
        OSError: A part cannot be read.
    """
    engines: dict[int, dict[str, JsonValue]] = {}
    for path in sorted(folder.glob(f"{_PREFIX}*.json")):
        number, _, part = path.stem.removeprefix(_PREFIX).partition("-")
        facts = json.loads(path.read_text(encoding="utf-8"))
        engines.setdefault(int(number), {"engine": int(number)})[part] = facts
    joined: list[JsonValue] = [
        {**engines[number], "sources": describe_sources(engines[number])}
        for number in sorted(engines)
    ]
    return {"engines": joined}


class SpeculationRoute:
    """Middleware of vLLM's server that answers one path and passes everything else on unchanged."""

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
