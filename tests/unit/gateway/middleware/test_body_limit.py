import pytest
from starlette.types import Message, Receive, Scope, Send

from gateway.errors import BodyTooLargeError
from gateway.middleware import BodyLimit


class Reader:
    """An app that reads its whole body."""

    def __init__(self) -> None:
        self.body = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            self.body += message.get("body", b"")
            if not message.get("more_body"):
                return


class Client:
    """Sends pieces; remembers how many were asked for."""

    def __init__(self, *pieces: bytes) -> None:
        self.asked = 0
        self._pieces = pieces

    async def receive(self) -> Message:
        piece = self._pieces[self.asked]
        self.asked += 1
        return {"type": "http.request", "body": piece, "more_body": self.asked < len(self._pieces)}


async def send(message: Message) -> None:
    raise AssertionError(f"nothing is sent here: {message}")


async def read(client: Client, *headers: tuple[bytes, bytes]) -> bytes:
    reader = Reader()
    scope = {"type": "http", "headers": headers}
    await BodyLimit(reader, most_bytes=10)(scope, client.receive, send)
    return reader.body


@pytest.mark.parametrize("pieces", [(b"",), (b"12345", b"67890"), (b"1234567890",)], ids=str)
async def test_a_body_up_to_the_limit_passes(pieces: tuple[bytes, ...]) -> None:
    assert await read(Client(*pieces)) == b"".join(pieces)


async def test_an_announced_length_over_the_limit_is_refused_unread() -> None:
    client = Client(b"1", b"2")

    with pytest.raises(BodyTooLargeError) as caught:
        await read(client, (b"content-length", b"11"))

    assert client.asked == 0
    assert caught.value.status == 413


async def test_a_body_that_grows_past_the_limit_is_refused() -> None:
    client = Client(b"12345", b"67890", b"1", b"never asked for")

    with pytest.raises(BodyTooLargeError):
        await read(client)

    assert client.asked == 3


async def test_a_body_longer_than_announced_is_refused() -> None:
    with pytest.raises(BodyTooLargeError):
        await read(Client(b"12345678901"), (b"content-length", b"5"))


async def test_a_length_that_is_not_a_number_is_ignored() -> None:
    assert await read(Client(b"123"), (b"content-length", b"x")) == b"123"


async def test_other_protocols_pass() -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    await BodyLimit(app, most_bytes=1)({"type": "lifespan"}, Client().receive, send)

    assert seen == [{"type": "lifespan"}]
