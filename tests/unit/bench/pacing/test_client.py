"""The client keeps every packet of every stream, and says what is wrong with a bad answer."""

import socket
import threading
from collections.abc import Iterator

import pytest

from bench.pacing.client import Capture, Crowd, capture_streams

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
GOOD = [HEAD, b"3\r\none\r\n", b"3\r\ntwo\r\n0\r\n\r\n"]
CROWD = Crowd(at_once=2, spacing_seconds=0.0, limit_seconds=30.0)


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


def capture(server: Server, request: bytes) -> Capture:
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
    assert [found.asked_ns, *clocks] == sorted({found.asked_ns, *clocks})
    assert found.ended_ns == clocks[-1]


def test_a_refusal_is_told(server: Server) -> None:
    assert "503 Busy" in (capture(server, b"refused").flaw or "")


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
    asked = [each.asked_ns for each in capture_streams(server.port, [b"good"] * 3, spaced)]

    assert asked[1] - asked[0] >= 50_000_000
    assert asked[2] - asked[1] >= 50_000_000
