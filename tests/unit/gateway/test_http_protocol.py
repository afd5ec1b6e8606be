import asyncio
import json
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import cast

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from gateway.api import CLIENT_SOCKET
from gateway.http_protocol import (
    MOST_HEAD_BYTES,
    MOST_HEADERS,
    ClientSocket,
    ClientTransport,
    GatewayProtocol,
)
from tests.integration.waiting import eventually


class RecordingTransport(asyncio.Transport):
    """A transport that records what is written."""

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
async def transport() -> RecordingTransport:
    return RecordingTransport()


@pytest.fixture
async def client(transport: RecordingTransport) -> ClientTransport:
    return ClientTransport(transport, asyncio.get_running_loop(), lambda: False)


async def test_a_head_is_sent_with_the_first_bytes_of_its_body(
    transport: RecordingTransport, client: ClientTransport
) -> None:
    client.write(HEAD)
    client.write(b"1")
    client.write(b"2")

    assert transport.writes == [HEAD + b"1", b"2"]


async def test_a_head_alone_is_sent_in_the_next_loop_turn(
    transport: RecordingTransport, client: ClientTransport
) -> None:
    client.write(HEAD)
    assert transport.writes == []

    await asyncio.sleep(0)

    assert transport.writes == [HEAD]
    client.write(b"1")
    assert transport.writes == [HEAD, b"1"]


async def test_a_head_is_sent_once(transport: RecordingTransport, client: ClientTransport) -> None:
    client.write(HEAD)
    client.write(b"1")
    await asyncio.sleep(0)

    assert transport.writes == [HEAD + b"1"]


async def test_consecutive_heads_keep_their_order(
    transport: RecordingTransport, client: ClientTransport
) -> None:
    client.write(HEAD)
    client.write(HEAD)
    await asyncio.sleep(0)

    assert b"".join(transport.writes) == HEAD + HEAD


async def test_closing_sends_a_held_head(
    transport: RecordingTransport, client: ClientTransport
) -> None:
    client.write(HEAD)
    client.close()
    await asyncio.sleep(0)

    assert (transport.writes, transport.closed) == ([HEAD], True)


async def test_everything_else_is_forwarded_to_the_transport(
    transport: RecordingTransport, client: ClientTransport
) -> None:
    extra = client.get_extra_info

    assert extra("peername") == ("127.0.0.1", 1)  # type: ignore[operator]  # same


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    assert scope["type"] == "http"
    if scope["path"] == "/stream":
        await stream(scope, send)
        return
    if scope["path"] == "/abort":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        scope[CLIENT_SOCKET].abort()
        return
    received = b""
    while (message := await receive()).get("more_body"):
        received += message["body"]
    received += message["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": received or b"ok"})


async def stream(scope: Scope, send: Send) -> None:
    """Report over direct writes which of them were accepted, and end."""
    write: Callable[[bytes], bool] = scope[CLIENT_SOCKET].write_now
    head: Message = {"type": "http.response.start", "status": 200, "headers": []}
    if scope["query_string"]:
        head["headers"] = [(b"content-length", b"6")]
    early = write(b"early")
    await send(head)
    went = [early, write(b""), write(b"direct")]
    rest = json.dumps(went).encode() if went[-1] else b"asgi.."
    await send({"type": "http.response.body", "body": rest, "more_body": False})
    assert not write(b"late")


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
    await eventually(lambda: not state.connections)


async def ask(port: int, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        return await reader.read()
    finally:
        writer.transport.abort()


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
        b"GET / HTTP/0.9\r\nhost: x\r\n\r\n",
        b"GET / HTTP/2.0\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\na: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a b\r\n\r\n",
        b"GET / HTTP/1.0\r\nhost: a/b\r\n\r\n",
    ],
    ids=[
        *("text", "tls", "version", "length", "huge-length", "chunk", "header"),
        *("http-0.9", "http-2", "no-host", "two-hosts", "space-in-host", "slash-in-host"),
    ],
)
async def test_invalid_http_is_answered_in_openais_format(port: int, sent: bytes) -> None:
    head, _, body = (await ask(port, sent)).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert f"content-length: {len(body)}".encode() in head
    assert json.loads(body)["error"]["message"] == "The request is not valid HTTP."


async def test_valid_http_is_answered(port: int) -> None:
    answer = await ask(port, b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"ok" in answer


async def test_a_chunk_may_be_written_directly(port: int) -> None:
    answer = await ask(port, b"GET /stream HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")

    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    assert body == b"6\r\ndirect\r\n14\r\n[false, false, true]\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [(b"GET /stream?length HTTP/1.1", b"asgi.."), (b"HEAD /stream HTTP/1.1", b"")],
    ids=["with-length", "head"],
)
async def test_a_response_with_a_length_may_not_be_written_directly(
    port: int, request_line: bytes, expected: bytes
) -> None:
    answer = await ask(port, request_line + b"\r\nhost: x\r\nconnection: close\r\n\r\n")

    assert answer.partition(b"\r\n\r\n")[2] == expected


async def test_an_abort_resets_the_connection(port: int) -> None:
    with pytest.raises(ConnectionResetError):
        await ask(port, b"GET /abort HTTP/1.1\r\nhost: x\r\n\r\n")


class Cycle:
    """What `ClientSocket` looks at of uvicorn's request and answer."""

    def __init__(self, *, paused: bool = False, disconnected: bool = False) -> None:
        self.flow = SimpleNamespace(write_paused=paused)
        self.chunked_encoding, self.response_complete = True, False
        self.disconnected = disconnected
        self.transport = RecordingTransport()


@pytest.mark.parametrize(
    ("cycle", "taken", "written"),
    [
        (Cycle(), True, [b"1\r\nx\r\n"]),
        (Cycle(paused=True), False, []),
        (Cycle(disconnected=True), True, []),
    ],
    ids=["open", "client-slow", "client-gone"],
)
def test_direct_writes_follow_the_clients_state(
    cycle: Cycle, taken: bool, written: list[bytes]
) -> None:
    client = ClientSocket(cast(RequestResponseCycle, cycle))

    assert client.write_now(b"x") is taken
    assert cycle.transport.writes == written


def test_an_ended_response_is_not_aborted() -> None:
    cycle = Cycle()
    client = ClientSocket(cast(RequestResponseCycle, cycle))
    del cycle

    client.abort()

    assert not client.write_now(b"x")


def head_of(*headers: bytes, method: bytes = b"GET") -> bytes:
    return b"\r\n".join((method + b" /body HTTP/1.1", b"host: x", *headers, b"", b""))


CLOSE = b"connection: close"


async def test_a_client_that_is_still_sending_gets_the_answer_that_says_why(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /" + b"x" * 40 * MOST_HEAD_BYTES)
    async with asyncio.timeout(5):
        assert b"HTTP/1.1 431 " in await reader.read()
    writer.transport.abort()


@pytest.mark.parametrize(
    "head",
    [
        head_of(b"a: " + b"x" * MOST_HEAD_BYTES),
        b"GET /" + b"x" * MOST_HEAD_BYTES,
        head_of(*(b"a: %d" % n for n in range(MOST_HEADERS))),
    ],
    ids=["long-header", "endless-path", "many-headers"],
)
async def test_a_head_over_the_limit_is_answered_431(port: int, head: bytes) -> None:
    answer = await ask(port, head)

    assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "request_head_too_large"


async def test_a_head_at_the_limit_is_read(port: int) -> None:
    room = MOST_HEAD_BYTES - len(head_of(CLOSE, b"a: ")) + 4
    headers = [b"a: %d" % n for n in range(MOST_HEADERS - 2)]

    for head in (head_of(CLOSE, b"a: " + b"x" * room), head_of(CLOSE, *headers)):
        assert (await ask(port, head)).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\nhost", b""], ids=["begun", "silent"])
async def test_a_head_that_does_not_end_in_time_ends_the_connection(
    port: int, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.http_protocol.HEAD_SECONDS", 0.05)

    async with asyncio.timeout(5):
        answer = await ask(port, sent)

    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n") == bool(sent)


async def test_a_keep_alive_connection_may_be_idle_for_longer_than_a_head_may_take(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.http_protocol.HEAD_SECONDS", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for sent in (head_of(), head_of(CLOSE)):
        writer.write(sent)
        await reader.readuntil(b"ok")
        await asyncio.sleep(0.1)
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("cut", [None, -1, -6, 20], ids=["whole", "last-byte", "body", "head"])
async def test_upgrade_is_ignored_and_the_body_stays_a_body(port: int, cut: int | None) -> None:
    upgrade = (b"connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"http2-settings: AAMA")
    smuggled = b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n"
    length = b"content-length: %d" % len(smuggled)
    sent = head_of(*upgrade, length, method=b"POST") + smuggled
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent[:cut])
    await writer.drain()
    await asyncio.sleep(0.02)
    writer.write(sent[cut:] if cut else b"")
    answer = await reader.readuntil(smuggled)

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    writer.write(head_of(CLOSE))
    assert (await reader.read()).count(b"HTTP/1.1 ") == 1
    writer.close()
    await writer.wait_closed()


async def test_pipelined_requests_are_answered_in_order(port: int) -> None:
    first = head_of(b"content-length: 3", method=b"POST") + b"one"
    second = head_of(CLOSE, b"content-length: 3", method=b"POST") + b"two"

    answer = await ask(port, first + second)

    assert answer.find(b"one") < answer.find(b"two") != -1


async def test_a_pipelined_head_may_be_split_anywhere(port: int) -> None:
    first = head_of(b"content-length: 3", method=b"POST") + b"one"
    second = head_of(CLOSE, b"content-length: 3", method=b"POST") + b"two"
    for cut in range(1, len(second)):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(first + second[:cut])
        await reader.readuntil(b"one")
        writer.write(second[cut:])
        async with asyncio.timeout(5):
            assert b"two" in await reader.read()
        writer.close()
        await writer.wait_closed()


async def test_a_pipelined_head_over_the_limit_is_refused(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head_of() + b"GET / HTTP/1.1\r\na: ")
    await reader.readuntil(b"ok")
    writer.write(b"x" * (MOST_HEAD_BYTES + 1))
    assert b"HTTP/1.1 431 " in await reader.read()
    writer.close()
    await writer.wait_closed()


async def test_http_1_0_needs_no_host(port: int) -> None:
    assert b"ok" in await ask(port, b"GET / HTTP/1.0\r\n\r\n")


async def test_connect_is_refused(port: int) -> None:
    answer = await ask(port, b"CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")


POST = head_of(b"content-length: 3", method=b"POST")


@pytest.mark.parametrize(
    ("in_front", "answers"),
    [(POST + b"one", [b"one"]), (2 * (POST + b"one"), [b"one", b"one"])],
    ids=["one", "two"],
)
@pytest.mark.parametrize(
    "refused",
    [
        b"GARBAGE / HTTP/1aaa\r\n\r\n",
        b"GET / HTTP/1.1\r\na: " + b"x" * 8 * MOST_HEAD_BYTES,
        head_of(b"connection: upgrade", b"upgrade: h2c"),
        head_of(b"transfer-encoding: chunked", method=b"POST") + b"zz\r\n",
        head_of(b"transfer-encoding: chunked", method=b"POST") + b"3\r\nabc\r\nzz\r\n",
    ],
    ids=["no-http", "long-head", "upgrade", "bad-chunk", "later-bad-chunk"],
)
async def test_requests_in_front_of_a_refused_one_are_answered_and_nothing_else(
    port: int, in_front: bytes, answers: list[bytes], refused: bytes
) -> None:
    async with asyncio.timeout(5):
        answer = await ask(port, in_front + refused)

    before, _, refusal = answer.partition(b"HTTP/1.1 4")  # a late one may still be answered
    assert before.count(b"HTTP/1.1 200 OK\r\n") == before.count(b"one") == len(answers)
    assert b"HTTP/1.1 " not in refusal
