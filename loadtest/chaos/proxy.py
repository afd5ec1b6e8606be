"""A TCP proxy before the worker that causes faults: resets, cuts, stalls and wrong bytes.

With it, a real worker appears to fail without being restarted.
"""

import asyncio
import socket
import struct
from collections import deque
from dataclasses import dataclass, field
from typing import Literal, cast

from loadtest.chaos.faults import Kind

_ANSWER_KINDS = frozenset(
    {Kind.RESET_ANSWER, Kind.CUT_ANSWER, Kind.HANG_ANSWER, Kind.GARBAGE, Kind.BAD_FRAME}
)
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # Source: socket(7), SO_LINGER
_GARBAGE = bytes((7 * number + 13) % 256 for number in range(700))
_BAD_EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": \n\n'
_BAD_FRAME = b"%x\r\n%b\r\n" % (len(_BAD_EVENT), _BAD_EVENT)


_Direction = Literal["worker", "gateway", "end"]


@dataclass(eq=False, slots=True)
class Strike:
    """A fault that waits for an answer to hit.

    Attributes:
        kind: One of an answer.
        bytes_passed: How much of the answer goes through before.
        hit: Set when it has happened.
    """

    kind: Kind
    bytes_passed: int
    hit: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        assert self.kind in _ANSWER_KINDS


class FaultProxy:
    """Listens on 127.0.0.1 and forwards everything to the worker's port, apart from its faults.

    Attributes:
        port: Where it listens; stays the same when it listens again.
    """

    def __init__(self, worker_port: int) -> None:
        self.port = 0
        self.worker_port = worker_port
        self._pairs: set[_Pair] = set()
        self._strikes: deque[Strike] = deque()
        self._server: asyncio.Server | None = None
        self._is_resetting = False
        self.is_frozen = False

    async def listen(self) -> None:
        """Take connections; on the same port as before."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _GatewaySide(self), "127.0.0.1", self.port, backlog=1024
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Listen no more and reset every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.reset_all()

    def strike(self, strike: Strike) -> None:
        """Apply a strike to the answer of the next request."""
        self._strikes.append(strike)

    def withdraw(self, strike: Strike) -> None:
        """Cancel a strike that has not happened yet."""
        if strike in self._strikes:
            self._strikes.remove(strike)
        for pair in self._pairs:
            pair.forget(strike)

    def reset_all(self) -> None:
        """Reset every connection."""
        for pair in list(self._pairs):
            pair.reset()

    def reset_new(self, is_on: bool) -> None:
        """Whether new connections are reset at once."""
        self._is_resetting = is_on

    def freeze(self) -> None:
        """Forward nothing in either direction; connections stay open."""
        self.is_frozen = True

    def thaw(self) -> None:
        """Forward everything that was held, in order."""
        self.is_frozen = False
        for pair in list(self._pairs):
            pair.release()

    # What the connections ask.

    def admit(self, pair: "_Pair") -> bool:
        """Register a new connection; returns whether it is accepted."""
        if not self._is_resetting:
            self._pairs.add(pair)
        return not self._is_resetting

    def forget(self, pair: "_Pair") -> None:
        """Remove a closed connection."""
        self._pairs.discard(pair)

    def next_strike(self) -> Strike | None:
        """The strike for the answer to a new request, if any."""
        return self._strikes.popleft() if self._strikes else None

    def give_back(self, strike: Strike) -> None:
        """Return a strike whose answer was too short, for another answer."""
        self._strikes.appendleft(strike)


class _Pair:
    """One connection of the gateway, and ours to the worker that belongs to it."""

    def __init__(self, proxy: FaultProxy, gateway: asyncio.Transport) -> None:
        self._proxy = proxy
        self._gateway = gateway
        self._worker: asyncio.Transport | None = None
        self._held: deque[tuple[_Direction, bytes]] = deque()
        self._strike: Strike | None = None
        self._passed = 0
        self._is_mute = False
        self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.create_connection(
                lambda: _WorkerSide(self), "127.0.0.1", self._proxy.worker_port
            )
        except OSError:
            self.reset()  # as a worker that is gone would
            return
        self._worker = transport
        self.release()

    def from_gateway(self, data: bytes) -> None:
        if data.startswith(b"POST "):
            self.forget_strike()
            self._strike, self._passed = self._proxy.next_strike(), 0
        self._held.append(("worker", data))
        self.release()

    def from_worker(self, data: bytes) -> None:
        self._held.append(("gateway", data))
        self.release()

    def release(self) -> None:
        """Forward held bytes that are due."""
        while self._held and not self._proxy.is_frozen and self._worker is not None:
            direction, data = self._held.popleft()
            match direction:
                case "worker":
                    self._worker.write(data)
                case "gateway":
                    self._answer(data)
                case "end":
                    self.end()

    def reset(self) -> None:
        """Reset both connections."""
        _abort(self._gateway)
        self.end()

    def end(self) -> None:
        """Close one side after the other has closed."""
        self.forget_strike()
        self._proxy.forget(self)
        self._connecting.cancel()
        self._held.clear()
        self._gateway.close()
        if self._worker is not None:
            self._worker.close()

    def lose_worker(self) -> None:
        """The worker closed: close after the held bytes; a stalled answer stays open."""
        if not self._is_mute:
            self._held.append(("end", b""))
            self.release()

    def forget(self, strike: Strike) -> None:
        """Drop the strike."""
        if self._strike is strike:
            self._strike = None

    def forget_strike(self) -> None:
        """Drop a strike whose answer ended, or never came, before it happened."""
        if self._strike is not None:
            self._proxy.give_back(self._strike)
            self._strike = None

    def _answer(self, data: bytes) -> None:
        if self._is_mute:
            return
        strike = self._strike
        if strike is None or not self._is_due(strike, data):
            self._passed += len(data)
            self._gateway.write(data)
            return
        self._strike = None
        self._hit(strike, data)
        strike.hit.set()

    def _is_due(self, strike: Strike, data: bytes) -> bool:
        if strike.kind is Kind.BAD_FRAME:
            # Between two chunks of a body, not behind its last.
            at_border = data.endswith(b"\r\n") and not data.endswith(b"0\r\n\r\n")
            return at_border and self._passed + len(data) >= strike.bytes_passed
        return self._passed + len(data) > strike.bytes_passed

    def _hit(self, strike: Strike, data: bytes) -> None:
        first = data[: max(0, strike.bytes_passed - self._passed)]
        match strike.kind:
            case Kind.RESET_ANSWER:
                self._gateway.write(first)
                self.reset()
            case Kind.CUT_ANSWER:
                self._gateway.write(first)
                self.end()
            case Kind.HANG_ANSWER:
                self._gateway.write(first)
                self._is_mute = True
            case Kind.GARBAGE:
                self._gateway.write(first + _GARBAGE)
                self.end()
            case _:
                self._gateway.write(data + _BAD_FRAME)


class _GatewaySide(asyncio.Protocol):
    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy
        self._pair: _Pair | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        gateway = cast(asyncio.Transport, transport)
        pair = _Pair(self._proxy, gateway)
        if self._proxy.admit(pair):
            self._pair = pair
        else:
            pair.reset()

    def data_received(self, data: bytes) -> None:
        if self._pair is not None:
            self._pair.from_gateway(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._pair is not None:
            self._pair.end()


class _WorkerSide(asyncio.Protocol):
    def __init__(self, pair: _Pair) -> None:
        self._pair = pair

    def data_received(self, data: bytes) -> None:
        self._pair.from_worker(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pair.lose_worker()


def _abort(transport: asyncio.Transport) -> None:
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()
