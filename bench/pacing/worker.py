"""A worker that plays patterns, exact to half a millisecond, and reports when it sent each chunk.

    python -m bench.pacing.worker --port N --patterns FILE

It speaks vLLM's chat stream. A request names under `play` the pattern and an id; `GET /stamps`
gives, by id, CLOCK_MONOTONIC just before each chunk was written, the end last, and forgets them.

It runs on plain asyncio, whose transport writes at once; uvloop writes at the end of an iteration.
One timer serves all answers, as a timer for each chunk would cost more than sending it.
"""

import argparse
import asyncio
import json
import signal
import time
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import cast

import httptools

from bench.calls import MODEL
from bench.pacing.dialect import frames_of
from bench.pacing.patterns import Pattern, load_patterns

_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_TICK_NS = 500_000
"""Between two looks at what is due: of a thousand streams a dozen chunks leave at each."""


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
    """One answer that is being played.

    Attributes:
        is_over: All of it was sent, or the client has left.
    """

    def __init__(
        self, plays: Plays, request: Mapping[str, str], transport: asyncio.Transport
    ) -> None:
        pattern, self._frames, self._end = plays.find(request["pattern"])
        self._offsets_ns = [chunk.offset_ns for chunk in pattern.chunks]
        self._stamps = plays.stamps.setdefault(request["id"], [])
        self._transport = transport
        self._begin_ns = time.monotonic_ns()
        self.is_over = False
        transport.write(_STREAM_HEAD)

    @property
    def due_ns(self) -> int:
        """When the next chunk is to leave."""
        return self._begin_ns + self._offsets_ns[len(self._stamps)]

    def send(self) -> None:
        """Send the next chunk, and the end behind the last one."""
        number = len(self._stamps)
        self._stamps.append(time.monotonic_ns())
        self._transport.write(self._frames[number])
        if number + 1 == len(self._frames):
            self.is_over = True
            self._stamps.append(time.monotonic_ns())
            self._transport.write(self._end)


class _Conductor:
    """Has every answer's chunks leave when they are due, with one timer."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._order: list[tuple[int, int, _Playing]] = []
        self._serial = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, playing: _Playing) -> None:
        """Begin with an answer."""
        self._serial += 1
        heappush(self._order, (playing.due_ns, self._serial, playing))
        if self._order[0][1] == self._serial:
            self._set_timer(time.monotonic_ns())

    def _turn(self) -> None:
        order, begin_ns = self._order, time.monotonic_ns()
        while order and order[0][0] <= begin_ns:
            _, serial, playing = heappop(order)
            if not playing.is_over:
                playing.send()
            if not playing.is_over:
                heappush(order, (playing.due_ns, serial, playing))
        self._set_timer(begin_ns + _TICK_NS)

    def _set_timer(self, least_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._order:
            due_ns = max(self._order[0][0], least_ns)
            self._timer = self._loop.call_at(due_ns / 1e9, self._turn)  # it has the same clock


class _Connection(asyncio.Protocol):
    """One keep-alive connection of the gateway."""

    def __init__(self, plays: Plays, conductor: _Conductor) -> None:
        self._plays = plays
        self._conductor = conductor
        self._playing: _Playing | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._url, self._body = b"", b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._playing is not None:
            self._playing.is_over = True

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
            return
        self._conductor.add(self._playing)

    def _answer(self, status: int, page: Mapping[str, object]) -> None:
        text = json.dumps(page).encode()
        head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\n"
        self._transport.write(f"{head}content-length: {len(text)}\r\n\r\n".encode() + text)


async def _serve(port: int, plays: Plays) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    conductor = _Conductor()
    server = await loop.create_server(
        lambda: _Connection(plays, conductor), "127.0.0.1", port, backlog=4096
    )
    async with server:
        await stopped.wait()


def main() -> None:
    """Play until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m bench.pacing.worker")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--patterns", type=Path, required=True)
    arguments = parser.parse_args()
    asyncio.run(_serve(arguments.port, Plays(load_patterns(arguments.patterns))))


if __name__ == "__main__":
    main()
