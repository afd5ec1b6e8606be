import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from gateway.http_protocol import GatewayProtocol, HeadCork


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


HEAD = b"HTTP/1.1 200 OK\r\na: b\r\n\r\n"


@pytest.fixture
async def wire() -> Wire:
    return Wire()


@pytest.fixture
async def cork(wire: Wire) -> HeadCork:
    return HeadCork(wire, asyncio.get_running_loop())


async def test_a_head_leaves_with_the_first_bytes_of_its_body(wire: Wire, cork: HeadCork) -> None:
    cork.write(HEAD)
    cork.write(b"1")
    cork.write(b"2")

    assert wire.writes == [HEAD + b"1", b"2"]


async def test_a_head_alone_leaves_when_the_loop_comes_round(wire: Wire, cork: HeadCork) -> None:
    cork.write(HEAD)
    assert wire.writes == []

    await asyncio.sleep(0)

    assert wire.writes == [HEAD]
    cork.write(b"1")
    assert wire.writes == [HEAD, b"1"]


async def test_a_head_is_sent_once(wire: Wire, cork: HeadCork) -> None:
    cork.write(HEAD)
    cork.write(b"1")
    await asyncio.sleep(0)

    assert wire.writes == [HEAD + b"1"]


async def test_heads_one_after_another_keep_their_order(wire: Wire, cork: HeadCork) -> None:
    cork.write(HEAD)
    cork.write(HEAD)
    await asyncio.sleep(0)

    assert b"".join(wire.writes) == HEAD + HEAD


async def test_closing_sends_what_is_held(wire: Wire, cork: HeadCork) -> None:
    cork.write(HEAD)
    cork.close()
    await asyncio.sleep(0)

    assert (wire.writes, wire.closed) == ([HEAD], True)


async def test_all_else_is_the_transports(wire: Wire, cork: HeadCork) -> None:
    extra = cork.get_extra_info

    assert extra("peername") == ("127.0.0.1", 1)  # type: ignore[operator]  # same


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    config = uvicorn.Config(app, http=GatewayProtocol, lifespan="off", log_config=None)
    config.load()
    state = uvicorn.server.ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: GatewayProtocol(config, state, {}), "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()


async def ask(port: int, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize(
    "sent",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
    ],
    ids=["text", "tls", "version", "length", "huge-length", "chunk", "header"],
)
async def test_what_is_no_http_is_answered_in_openais_shape(port: int, sent: bytes) -> None:
    head, _, body = (await ask(port, sent)).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert f"content-length: {len(body)}".encode() in head
    assert json.loads(body)["error"]["message"] == "The request is not valid HTTP."


async def test_what_is_http_is_answered(port: int) -> None:
    answer = await ask(port, b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"ok" in answer
