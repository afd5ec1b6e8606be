"""The judges' HTTP, from h11: the answers on a connection, and the requests that bytes hold.

h11 is no part of the gateway, so it makes none of the gateway's mistakes.
"""

import contextlib
from dataclasses import dataclass, field

import h11

_MOST_HEAD_BYTES = 2**20
_ASKED = [("host", "gateway")]


class NotHttpError(Exception):
    """The gateway sent bytes that are no HTTP answer."""


@dataclass(slots=True)
class Reply:
    """One answer.

    Attributes:
        status: HTTP status.
        headers: Names in lower case; the first one wins where a name repeats.
        body: Without HTTP's framing.
        is_whole: Whether its end has come.
    """

    status: int
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)
    is_whole: bool = False


class ReplyReader:
    """Reads the answers on one connection.

    Args:
        is_head: Whether the first request is a HEAD, whose answer has no body.

    Attributes:
        replies: The answers so far; only the last one can be incomplete.
    """

    def __init__(self, *, is_head: bool = False) -> None:
        self.replies: list[Reply] = []
        self._parser = _client("HEAD" if is_head else "GET")

    @property
    def whole(self) -> int:
        """How many answers are complete."""
        return sum(reply.is_whole for reply in self.replies)

    def feed(self, data: bytes) -> None:
        """Take in bytes.

        Raises:
            NotHttpError: They are not HTTP.
        """
        try:
            self._feed(data)
        except h11.RemoteProtocolError as error:
            raise NotHttpError(f"{error}: {data[:200]!r}") from error

    def close(self) -> None:
        """The connection was closed: the end of an answer without a length, or a cut."""
        with contextlib.suppress(h11.RemoteProtocolError):  # a cut: the answer is not whole
            self._feed(b"")

    def _feed(self, data: bytes) -> None:
        self._parser.receive_data(data)
        while True:
            event = self._parser.next_event()
            if event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                return
            if isinstance(event, h11.Response):
                headers = [
                    (name.decode(), value.decode("latin-1")) for name, value in event.headers
                ]
                self.replies.append(Reply(event.status_code, dict(reversed(headers))))
            elif isinstance(event, h11.Data):
                self.replies[-1].body += event.data
            elif isinstance(event, h11.EndOfMessage):
                self.replies[-1].is_whole = True
                rest, _ = self._parser.trailing_data
                self._parser = _client("GET")
                if not rest:
                    return
                self._parser.receive_data(rest)


def count_requests(data: bytes) -> int:
    """How many complete requests a strict server finds in `data`, up to its first error."""
    server = h11.Connection(h11.SERVER, max_incomplete_event_size=_MOST_HEAD_BYTES)
    server.receive_data(data)
    count = 0
    try:
        while True:
            event = server.next_event()
            if event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                return count
            if isinstance(event, h11.EndOfMessage):
                count += 1
                server.send(h11.Response(status_code=404, headers=[("content-length", "0")]))
                server.send(h11.EndOfMessage())
                if server.our_state is not h11.DONE:
                    return count
                server.start_next_cycle()
    except h11.RemoteProtocolError:
        return count


def _client(method: str) -> h11.Connection:
    """A parser that expects the answer to one request."""
    parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD_BYTES)
    parser.send(h11.Request(method=method, target="/", headers=_ASKED))
    parser.send(h11.EndOfMessage())
    return parser
