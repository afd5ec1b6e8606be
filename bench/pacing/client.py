"""A client that sees what an eavesdropper sees: the time and the bytes of every read of a socket.

`bench.client` times whole exchanges; here each packet counts, of a thousand streams at once. So
this is a bare epoll loop in one thread: a task for each stream would cost more than the gateway.
"""

import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

_READ_BYTES = 1 << 16
_GOOD = b"HTTP/1.1 200"
_CHUNKED_END = b"0\r\n\r\n"
_MANY = 200
_REST_SECONDS = 0.0005
"""Between two looks at many streams: to be woken for each packet costs both ends more CPU than the
packet does, and half a millisecond is nothing beside what a crowd is measured for."""


@dataclass(slots=True)
class Capture:
    """One request and what came back.

    Attributes:
        asked_ns: CLOCK_MONOTONIC when the request was handed to the socket.
        packets: Clock and bytes of each read, in order.
        flaw: Why the answer is not whole; None when it is.
    """

    asked_ns: int
    packets: list[tuple[int, bytes]] = field(default_factory=list)
    flaw: str | None = None

    @property
    def ended_ns(self) -> int:
        """Clock of the last packet, or of the request if none came."""
        return self.packets[-1][0] if self.packets else self.asked_ns


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many streams run at once, and how they begin.

    Attributes:
        at_once: Most of them; a stream that ends makes room for the next.
        spacing_seconds: Least time between two beginnings.
        limit_seconds: Longest that one may take; one that takes longer is flawed.
    """

    at_once: int
    spacing_seconds: float
    limit_seconds: float


def capture_streams(port: int, requests: Sequence[bytes], crowd: Crowd) -> list[Capture]:
    """Send every request to 127.0.0.1 on a connection of its own, and take all answers.

    Blocks the calling thread until the last answer has ended.

    Returns:
        A capture for each request, in their order; one that failed says so in `flaw`.
    """
    loop = _Loop(port, crowd)
    try:
        return loop.run(requests)
    finally:
        loop.close()


class _Loop:
    def __init__(self, port: int, crowd: Crowd) -> None:
        self._port = port
        self._crowd = crowd
        self._poll = select.epoll()
        self._open: dict[int, tuple[socket.socket, Capture]] = {}

    def run(self, requests: Sequence[bytes]) -> list[Capture]:
        captures: list[Capture] = []
        spacing_ns = int(self._crowd.spacing_seconds * 1e9)
        next_ns = time.monotonic_ns()
        next_look_ns = next_ns
        while len(captures) < len(requests) or self._open:
            now_ns = time.monotonic_ns()
            has_more = len(captures) < len(requests) and len(self._open) < self._crowd.at_once
            if has_more and now_ns >= next_ns:
                captures.append(self._begin(requests[len(captures)]))
                next_ns = max(next_ns + spacing_ns, now_ns)  # no rush to catch up after a wait
                continue
            if now_ns >= next_look_ns:
                self._give_up(now_ns)
                next_look_ns = now_ns + 500_000_000
            if len(self._open) > _MANY:
                time.sleep(_REST_SECONDS)
            wait_seconds = (next_ns - now_ns) / 1e9 if has_more else 0.5
            for number, _ in self._poll.poll(min(wait_seconds, 0.5)):
                self._read(number)
        return captures

    def close(self) -> None:
        for connection, _ in self._open.values():
            connection.close()
        self._poll.close()

    def _begin(self, request: bytes) -> Capture:
        connection = socket.create_connection(("127.0.0.1", self._port), timeout=10.0)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        capture = Capture(time.monotonic_ns())
        connection.sendall(request)
        connection.setblocking(False)
        self._open[connection.fileno()] = connection, capture
        self._poll.register(connection, select.EPOLLIN)
        return capture

    def _read(self, number: int) -> None:
        connection, capture = self._open[number]
        try:
            data = connection.recv(_READ_BYTES)
        except OSError as error:
            self._end(number, f"{type(error).__name__}: {error}")
            return
        if not data:
            self._end(number, "closed in mid-answer")
            return
        capture.packets.append((time.monotonic_ns(), data))
        if len(capture.packets) == 1 and not data.startswith(_GOOD):
            self._end(number, data[:300].decode(errors="replace"))
            return
        # Frames hold no CR, so these five bytes can only be the last chunk of a body.
        if data[-1:] == b"\n" and self._tail(capture).endswith(_CHUNKED_END):
            self._end(number, None)

    def _tail(self, capture: Capture) -> bytes:
        tail = b""
        for _, data in reversed(capture.packets):
            tail = data[-len(_CHUNKED_END) :] + tail
            if len(tail) >= len(_CHUNKED_END):
                break
        return tail

    def _end(self, number: int, flaw: str | None) -> None:
        connection, capture = self._open.pop(number)
        capture.flaw = flaw
        self._poll.unregister(connection)
        connection.close()

    def _give_up(self, now_ns: int) -> None:
        limit_ns = int(self._crowd.limit_seconds * 1e9)
        late = [
            number
            for number, (_, capture) in self._open.items()
            if now_ns - capture.asked_ns > limit_ns
        ]
        for number in late:
            self._end(number, f"not whole in {self._crowd.limit_seconds:.0f} s")
