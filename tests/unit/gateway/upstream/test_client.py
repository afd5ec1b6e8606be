import asyncio
import gzip
import json
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import httpx
import pytest
import uvloop

from gateway.errors import (
    InvalidRequestError,
    UpstreamError,
    WorkerBusyError,
    WorkerLostError,
    WorkerTimeoutError,
)
from gateway.upstream import ConnectionTimeouts, WorkerAddress, WorkerAnswer, WorkerClient
from gateway.upstream.client import HTTPX_ERRORS, worker_error
from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.gateway.canned_server import CannedServer, ok

CHAT = "/v1/chat/completions"
Connect = Callable[..., WorkerClient]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    made: list[WorkerClient] = []

    def make(
        url: str, *, socket_path: str | None = None, silence: float = 2, api_key: str | None = None
    ) -> WorkerClient:
        address = WorkerAddress("w", url, socket_path)
        made.append(WorkerClient(address, ConnectionTimeouts(1, silence), api_key=api_key))
        return made[-1]

    yield make
    for client in made:
        await client.close()


def chat(*, stream: bool = False, **script: object) -> bytes:
    return json.dumps({"messages": [], "stream": stream, "fake": script}).encode()


async def whole(
    client: WorkerClient, body: bytes = b"{}", headers: Mapping[str, str] | None = None
) -> tuple[WorkerAnswer, bytes]:
    async with client.post(CHAT, body, headers or {}) as answer:
        return answer, await answer.read(max_bytes=10**6)


async def test_requests_are_sent_unchanged(worker: FakeWorker, connect: Connect) -> None:
    body = chat()
    client = connect(worker.url, api_key="secret")
    for _ in range(3):
        answer, found = await whole(client, body, {"x-request-id": "r1"})

    seen = worker.requests[-1]
    assert (answer.status, answer.is_event_stream) == (200, False)
    assert json.loads(found)["object"] == "chat.completion"
    assert (seen.path, seen.body, seen.headers["x-request-id"]) == (CHAT, body, "r1")
    assert seen.headers["authorization"] == "Bearer secret"
    assert worker.connections == 1


@pytest.mark.parametrize("over_socket", [False, True], ids=["tcp", "unix"])
async def test_a_request_to_a_worker_that_does_not_listen_was_not_sent(
    tmp_path: Path, connect: Connect, over_socket: bool
) -> None:
    async with CannedServer() as server:
        url = server.url

    with pytest.raises(WorkerLostError) as caught:
        await whole(connect(url, socket_path=str(tmp_path / "none.sock") if over_socket else None))

    assert not caught.value.sent


def test_a_worker_that_resets_new_connections_is_lost_on_uvloop_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        reset = struct.pack("ii", 1, 0)

        def accept() -> None:
            for delay in range(tries):
                connection, _ = listening.accept()
                time.sleep(delay % 10 * 2e-4)  # just before or behind the end of the connecting
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                connection.close()

        async def ask() -> list[UpstreamError]:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            client = WorkerClient(
                WorkerAddress("w", url, None), ConnectionTimeouts(1, 2), api_key=None
            )
            found = []
            async with asyncio.TaskGroup() as group:
                busy = group.create_task(keep_busy())
                for _ in range(tries):
                    with pytest.raises(UpstreamError) as caught:
                        await client.get("/health", timeout_seconds=2)
                    found.append(caught.value)
                busy.cancel()
            await client.close()
            return found

        async def keep_busy() -> None:
            while True:
                time.sleep(1e-3)  # noqa: ASYNC251  # several events await the loop at once
                await asyncio.sleep(0)

        tries = 60
        server = threading.Thread(target=accept, daemon=True)
        server.start()
        found = uvloop.run(ask())
        server.join(timeout=5)

    assert all(isinstance(error, WorkerLostError) for error in found)
    causes = [error.__cause__.__cause__ for error in found if error.__cause__ is not None]
    assert any(isinstance(cause, AttributeError) for cause in causes)  # anyio has not mended it


async def test_a_unix_socket_works_too(tmp_path: Path, connect: Connect) -> None:
    socket_path = tmp_path / "w.sock"
    async with FakeWorker(uds=socket_path) as worker:
        answer, _ = await whole(connect("http://worker", socket_path=str(socket_path)), chat())

        assert answer.status == 200
        assert len(worker.requests) == 1


async def test_a_closed_connection_is_not_reused(
    worker: FakeWorker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.upstream.connection_pool.KEEP_ALIVE_SECONDS", 0.05)
    client = connect(worker.url)
    await whole(client, chat())
    assert worker.connections == 1

    await eventually(lambda: worker.connections == 0)
    await whole(client, chat())
    await worker.stop()  # the worker closes it
    await worker.start()
    await whole(client, chat())


async def test_a_shut_client_refuses_new_requests_and_finishes_running_ones(
    worker: FakeWorker, connect: Connect
) -> None:
    client = connect(worker.url)
    await whole(client, chat())  # leaves an idle connection behind

    async with client.post(CHAT, chat(gap_seconds=0.01, stream=True), {}) as running:
        client.shut()
        with pytest.raises(WorkerLostError) as refused:
            await whole(client, chat())
        rest = await running.read(max_bytes=10**6)
    client.reopen()
    answer, _ = await whole(client, chat())

    assert not refused.value.sent
    assert running.is_event_stream
    assert rest.endswith(b"data: [DONE]\n\n")
    assert answer.status == 200
    assert len(worker.requests) == 3


async def test_a_header_cannot_contain_a_line_end(worker: FakeWorker, connect: Connect) -> None:
    with pytest.raises(InvalidRequestError):
        await whole(connect(worker.url), b"{}", {"accept": "a\r\nx-injected: b"})

    assert worker.requests == []


async def test_only_headers_that_describe_the_body_are_forwarded(connect: Connect) -> None:
    headers = (
        b"Content-Type: application/json",
        b"Connection: keep-alive",
        b"Server: uvicorn",
        b"Set-Cookie: a=b",
        b"X-Request-Id: theirs",
        b'Alt-Svc: h3=":443"',
        b"Refresh: 0; url=http://10.0.0.1",
        b"Location: http://10.0.0.1",
        b"Strict-Transport-Security: max-age=1",
        b"Access-Control-Allow-Origin: *",
        b"OpenAI-Processing-Ms: 7",
        b"Content-Encoding: identity",
    )
    async with CannedServer(ok(b"{}", *headers)) as server:
        answer, _ = await whole(connect(server.url))

    assert answer.headers == [
        (b"content-type", b"application/json"),
        (b"openai-processing-ms", b"7"),
        (b"content-encoding", b"identity"),
    ]


@pytest.mark.parametrize("status", [300, 301, 304, 307, 399])
async def test_a_redirect_is_a_bad_answer(connect: Connect, status: int) -> None:
    head = b"HTTP/1.1 %d X\r\nlocation: http://10.0.0.1/secret\r\n" % status
    async with CannedServer(head + b"content-length: 0\r\n\r\n") as server:
        with pytest.raises(UpstreamError, match="redirect") as caught:
            await whole(connect(server.url))

    assert caught.value.status == 502


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [(b"7", 7), (b"100000000000", 60), (b"Wed, 21 Oct 2026 07:28:00 GMT", 1), (b"-1", 1)],
    ids=lambda value: str(value),
)
async def test_a_503_with_retry_after_means_that_the_worker_is_busy(
    connect: Connect, retry_after: bytes, seconds: float
) -> None:
    head = b"HTTP/1.1 503 X\r\ncontent-length: 0\r\nretry-after: %b\r\n\r\n" % retry_after
    async with CannedServer(head) as server:
        with pytest.raises(WorkerBusyError) as caught:
            await whole(connect(server.url))

    assert (caught.value.status, caught.value.retry_after_seconds) == (503, seconds)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_other_errors_are_answers(worker: FakeWorker, connect: Connect, status: int) -> None:
    answer, body = await whole(connect(worker.url), chat(status=status))

    assert answer.status == status
    assert "error" in json.loads(body)


async def test_an_answer_over_the_limit_is_refused(worker: FakeWorker, connect: Connect) -> None:
    async with connect(worker.url).post(CHAT, chat(unary_bytes=5000), {}) as answer:
        with pytest.raises(UpstreamError, match="too large"):
            await answer.read(max_bytes=1000)


def exceptions_of_httpx() -> list[type[Exception]]:
    public = [getattr(httpx, name) for name in httpx.__all__]
    return [each for each in public if isinstance(each, type) and issubclass(each, Exception)]


@pytest.mark.parametrize("kind", exceptions_of_httpx(), ids=lambda kind: kind.__name__)
def test_every_exception_of_httpx_becomes_one_of_ours(kind: type[Exception]) -> None:
    error = kind.__new__(kind)  # their constructors differ

    ours = worker_error(error)

    assert issubclass(kind, HTTPX_ERRORS)
    assert ours.outcome == "upstream_error"


def test_httpx_has_the_exceptions_that_are_walked() -> None:
    assert len(exceptions_of_httpx()) >= 25


BROKEN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "lost"),
    "no-http": (b"hello\r\n\r\n", "lost"),
    "short": (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}", "lost"),
    "no-last-chunk": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n", "lost"),
    "no-json": (ok(b"{"), "bad_answer"),
    "no-object": (ok(b"[]"), "bad_answer"),
    "deep": (ok(b"[" * 100_000), "bad_answer"),
    "compressed": (ok(gzip.compress(b"{}"), b"content-encoding: gzip"), "bad_answer"),
    "redirect": (b"HTTP/1.1 302 X\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n", "bad_answer"),
    "error": (b"HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n", "bad_answer"),
}


@pytest.mark.parametrize(("answer", "reason"), BROKEN.values(), ids=BROKEN)
async def test_a_small_call_that_fails_raises_our_error(
    connect: Connect, answer: bytes, reason: str
) -> None:
    async with CannedServer(answer) as server:
        with pytest.raises(UpstreamError) as caught:
            await connect(server.url).get_json("/x", timeout_seconds=2)

    assert caught.value.reason == reason
    assert len(server.requests) == 1


async def test_a_small_call_ends_in_time(connect: Connect) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"
    for answer in (b"", head):
        async with CannedServer(answer, hang=True) as server:
            client = connect(server.url)
            with pytest.raises(WorkerTimeoutError):
                await client.get("/x", timeout_seconds=0.05)
            await client.close()


@pytest.mark.parametrize("over_socket", [False, True], ids=["tcp", "unix"])
async def test_a_small_call_to_a_worker_that_does_not_listen_was_not_sent(
    tmp_path: Path, connect: Connect, over_socket: bool
) -> None:
    async with CannedServer() as server:
        url = server.url
    client = connect(url, socket_path=str(tmp_path / "none.sock") if over_socket else None)

    with pytest.raises(WorkerLostError) as caught:
        await client.get("/health", timeout_seconds=2)

    assert not caught.value.sent


async def test_a_small_call_needs_little_memory(connect: Connect) -> None:
    async with CannedServer(ok(b"x" * (2**24 + 1))) as server:
        with pytest.raises(UpstreamError, match="too large"):
            await connect(server.url).get("/x", timeout_seconds=5)


async def test_small_calls_send_the_key_and_use_no_proxy(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with CannedServer(ok(b'{"a":1}')) as server:
        client = connect(server.url, api_key="secret")
        assert await client.post_json("/x", b"[1]", timeout_seconds=2) == {"a": 1}
        assert await client.call("/x", b"[2]", timeout_seconds=2) == 200

    sent = server.requests[0].lower()
    assert sent.startswith(b"post /x http/1.1\r\n")
    assert b"\r\nauthorization: bearer secret\r\n" in sent
    assert b"\r\naccept-encoding: identity\r\n" in sent
    assert sent.endswith(b"\r\n\r\n[1]")


async def test_small_calls_are_refused_while_the_client_is_shut(
    worker: FakeWorker, connect: Connect
) -> None:
    client = connect(worker.url)
    client.shut()
    with pytest.raises(WorkerLostError) as refused:
        await client.get("/health", timeout_seconds=2)
    client.reopen()

    assert not refused.value.sent
    assert (await client.get("/health", timeout_seconds=2))[0] == 200


async def test_an_ipv6_address_works(connect: Connect) -> None:
    async with await asyncio.start_server(_answer_once, "::1", 0) as server:
        client = connect(f"http://[::1]:{server.sockets[0].getsockname()[1]}")

        assert await client.get("/x", timeout_seconds=2) == (200, b"{}")
        answer, body = await whole(client)
        assert (answer.status, body) == (200, b"{}")


async def _answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(ok(b"{}", b"connection: close"))
    writer.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1 in one file."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    options = (
        "req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=w -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(
        ["openssl", *options.split(), "-keyout", str(path), "-out", f"{path}.crt"],
        check=True,
        capture_output=True,
    )
    path.write_bytes(path.read_bytes() + Path(f"{path}.crt").read_bytes())
    return path


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "untrusted"])
async def test_tls_needs_a_certificate_that_is_trusted(
    connect: Connect, certificate: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate) if trusted else "/nowhere")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    async with await asyncio.start_server(_answer_once, "127.0.0.1", 0, ssl=tls) as server:
        client = connect(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        if trusted:
            assert await client.get("/x", timeout_seconds=2) == (200, b"{}")
            assert (await whole(client))[1] == b"{}"
            return
        for call in (client.get("/x", timeout_seconds=2), whole(client)):
            with pytest.raises(WorkerLostError) as caught:
                await call
            assert not caught.value.sent
