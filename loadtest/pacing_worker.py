"""A worker that plays patterns to the nanosecond it can, and tells afterwards when it sent what.

    python -m loadtest.pacing_worker --port N --patterns FILE

It speaks vLLM's chat stream. A request names under `play` the pattern and an id; `GET /stamps`
gives, by id, CLOCK_MONOTONIC just before each chunk was written, the end last, and forgets them.

Plain asyncio, since its transport writes at once; uvloop's does so at the end of a loop's turn.
"""

import argparse
import asyncio
import json
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import httptools

from loadtest.pacing_dialect import frames_of
from loadtest.pacing_patterns import Pattern, load_patterns
from loadtest.stream_call import MODEL

_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


class Plays:
    """The patterns as frames, and when they were sent.

    Attributes:
        stamps: By id, the clock of every chunk sent so far and, last, of the end.
    """

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._patterns = {pattern.name: pattern for pattern in patterns}
        self._frames: dict[str, tuple[list[bytes], bytes]] = {}
        self.stamps: dict[str, list[int]] = {}

    def find(self, name: str) -> tuple[Pattern, list[bytes], bytes]:
        """A pattern, the frames of its chunks and its end.

        Raises:
            KeyError: There is no such pattern.
        """
        pattern = self._patterns[name]
        if name not in self._frames:
            serial = f"{len(self._frames):032x}"
            self._frames[name] = frames_of(pattern, model=MODEL, serial=serial)
        return pattern, *self._frames[name]


class _Playing:
    """One answer on its way."""

    def __init__(
        self, plays: Plays, request: Mapping[str, str], transport: asyncio.Transport
    ) -> None:
        pattern, frames, end = plays.find(request["pattern"])
        self._due_ns = [chunk.offset_ns for chunk in pattern.chunks]
        self._frames = frames
        self._end = end
        self._stamps = plays.stamps.setdefault(request["id"], [])
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._begin_ns = time.monotonic_ns()
        self._timer: asyncio.TimerHandle | None = None
        transport.write(_STREAM_HEAD)
        self._wait()

    def stop(self) -> None:
        """The client has gone."""
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        due_ns = self._begin_ns + self._due_ns[len(self._stamps)]
        self._timer = self._loop.call_at(due_ns / 1e9, self._send)  # the loop's clock is the same

    def _send(self) -> None:
        self._stamps.append(time.monotonic_ns())
        self._transport.write(self._frames[len(self._stamps) - 1])
        if len(self._stamps) < len(self._frames):
            self._wait()
            return
        self._timer = None
        self._stamps.append(time.monotonic_ns())
        self._transport.write(self._end)


class _Connection(asyncio.Protocol):
    """One keep-alive connection of the gateway."""

    def __init__(self, plays: Plays) -> None:
        self._plays = plays
        self._playing: _Playing | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._url, self._body = b"", b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._playing is not None:
            self._playing.stop()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    # httptools callbacks

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        path, body = self._url.decode(), self._body
        self._url, self._body = b"", b""
        match path:
            case "/v1/chat/completions":
                self._play(body)
            case "/v1/models":
                card = {"id": MODEL, "object": "model", "owned_by": "loadtest"}
                self._answer(200, {"object": "list", "data": [card]})
            case "/stamps":
                self._answer(200, self._plays.stamps)
                self._plays.stamps.clear()
            case "/health" | "/metrics":
                self._answer(200, {})
            case _:
                self._answer(404, {"error": {"message": f"{path} is not played here"}})

    def _play(self, body: bytes) -> None:
        try:
            self._playing = _Playing(self._plays, json.loads(body)["play"], self._transport)
        except (KeyError, ValueError) as error:
            self._answer(400, {"error": {"message": f"not to be played: {error!r}", "code": 400}})

    def _answer(self, status: int, page: Mapping[str, object]) -> None:
        text = json.dumps(page).encode()
        head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\n"
        self._transport.write(f"{head}content-length: {len(text)}\r\n\r\n".encode() + text)


async def _serve(port: int, plays: Plays) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    server = await loop.create_server(lambda: _Connection(plays), "127.0.0.1", port, backlog=4096)
    async with server:
        await stopped.wait()


def main() -> None:
    """Play until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.pacing_worker")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--patterns", type=Path, required=True)
    arguments = parser.parse_args()
    asyncio.run(_serve(arguments.port, Plays(load_patterns(arguments.patterns))))


if __name__ == "__main__":
    main()
