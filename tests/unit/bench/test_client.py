"""The client records every packet, times answers in order, and says what is wrong with one."""

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from bench.calls import Call, stream_call, unary_call
from bench.client import Crowd, Exchange, LoadConnection, capture_streams
from tests.fakes.worker import FakeWorker

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
GOOD = [HEAD, b"3\r\none\r\n", b"3\r\ntwo\r\n0\r\n\r\n"]
CROWD = Crowd(at_once=2, spacing_seconds=0.0, limit_seconds=30.0)


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as started:
        started.state.models = ["fake-model"]
        yield started


@pytest.fixture
async def connection(worker: FakeWorker) -> AsyncIterator[LoadConnection]:
    opened = await LoadConnection.open(worker.port)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "call",
    [unary_call(), stream_call(chunks=1), stream_call(chunks=100)],
    ids=["unary", "one-chunk", "hundred-chunks"],
)
async def test_good_answer_has_no_flaw(connection: LoadConnection, call: Call) -> None:
    first = await connection.exchange(call.request, timeout_seconds=5.0)
    second = await connection.exchange(call.request, timeout_seconds=5.0)

    assert call.flaw_of(first) is None
    assert call.flaw_of(second) is None
    assert first.sent_ns < first.first_byte_ns <= first.end_ns < second.sent_ns


async def test_first_byte_comes_before_the_gaps(connection: LoadConnection) -> None:
    call = stream_call(chunks=4, gap_seconds=0.05)

    exchange = await connection.exchange(call.request, timeout_seconds=5.0)

    assert exchange.end_ns - exchange.first_byte_ns > 140_000_000
    assert exchange.first_byte_ns - exchange.sent_ns < 50_000_000


async def test_status_is_a_flaw(worker: FakeWorker, connection: LoadConnection) -> None:
    worker.state.models = ["another"]

    exchange = await connection.exchange(unary_call().request, timeout_seconds=5.0)

    assert str(unary_call().flaw_of(exchange)).startswith("status 404")


async def test_missing_chunk_is_a_flaw(connection: LoadConnection) -> None:
    short = await connection.exchange(stream_call(chunks=3).request, timeout_seconds=5.0)

    assert stream_call(chunks=5).flaw_of(short) == "5 events for 5 chunks"


async def test_missing_done_is_a_flaw(connection: LoadConnection) -> None:
    whole = await connection.exchange(stream_call(chunks=4).request, timeout_seconds=5.0)
    packets = [(at_ns, data.replace(b"data: [DONE]", b"")) for at_ns, data in whole.packets]
    cut = replace(whole, packets=packets)

    assert stream_call(chunks=4).flaw_of(cut) == "no [DONE]"


async def test_late_answer_ends_the_connection(connection: LoadConnection) -> None:
    call = stream_call(chunks=3, gap_seconds=1.0)

    late = await connection.exchange(call.request, timeout_seconds=0.1)
    next_one = await connection.exchange(call.request, timeout_seconds=0.1)

    assert late.flaw == "not whole in 0.1 s"
    assert next_one.flaw == "the connection was closed between requests"


async def test_broken_connection_is_reported(
    worker: FakeWorker, connection: LoadConnection
) -> None:
    await worker.stop()

    exchange = await connection.exchange(unary_call().request, timeout_seconds=5.0)

    assert "closed" in (exchange.flaw or "")


class Server:
    """Answers each connection with the pieces that its request names, one after the other.

    Attributes:
        most_at_once: Connections that were open together.
    """

    def __init__(self, answers: dict[bytes, list[bytes]]) -> None:
        self._answers = answers
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open = 0
        self._lock = threading.Lock()
        self.most_at_once = 0
        self.port = self._socket.getsockname()[1]
        self.closing = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            with self._lock:
                self._open += 1
                self.most_at_once = max(self.most_at_once, self._open)
            *pieces, last = self._answers[connection.recv(100)]
            for piece in pieces:
                connection.sendall(piece)
                self.closing.wait(0.01)  # so that each piece is a packet of its own
            with self._lock:
                self._open -= 1  # the client may go on as soon as it has the last piece
            connection.sendall(last)
            connection.recv(1)  # until the client has seen enough

    def close(self) -> None:
        self.closing.set()
        self._socket.close()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server(
        {
            b"good": GOOD,
            b"split": [*GOOD[:2], b"3\r\ntwo\r\n0\r", b"\n\r", b"\n"],
            b"refused": [b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"],
            b"endless": [HEAD, b"3\r\none\r\n"],
        }
    )
    yield running
    running.close()


def capture(server: Server, request: bytes) -> Exchange:
    (found,) = capture_streams(server.port, [request], CROWD)
    return found


@pytest.mark.parametrize("request_bytes", [b"good", b"split"])
def test_an_answer_is_whole_with_its_last_chunk(server: Server, request_bytes: bytes) -> None:
    found = capture(server, request_bytes)

    assert found.flaw is None
    assert b"".join(data for _, data in found.packets).endswith(b"two\r\n0\r\n\r\n")


def test_packets_are_timed_in_order(server: Server) -> None:
    found = capture(server, b"good")

    clocks = [at_ns for at_ns, _ in found.packets]
    assert len(clocks) == 3
    assert [found.sent_ns, *clocks] == sorted({found.sent_ns, *clocks})
    assert found.end_ns == clocks[-1]


def test_an_error_status_is_a_flaw(server: Server) -> None:
    assert (capture(server, b"refused").flaw or "").startswith("status 503")


def test_an_answer_that_does_not_end_is_given_up(server: Server) -> None:
    quick = Crowd(at_once=1, spacing_seconds=0.0, limit_seconds=0.05)
    (found,) = capture_streams(server.port, [b"endless"], quick)

    assert "not whole" in (found.flaw or "")


def test_no_more_streams_run_at_once_than_there_may(server: Server) -> None:
    found = capture_streams(server.port, [b"good"] * 7, CROWD)

    assert [each.flaw for each in found] == [None] * 7
    assert server.most_at_once == 2


def test_streams_begin_apart(server: Server) -> None:
    spaced = Crowd(at_once=5, spacing_seconds=0.1, limit_seconds=30.0)
    asked = [each.sent_ns for each in capture_streams(server.port, [b"good"] * 3, spaced)]

    assert asked[1] - asked[0] >= 50_000_000
    assert asked[2] - asked[1] >= 50_000_000
