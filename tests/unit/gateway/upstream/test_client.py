import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from gateway.errors import (
    InvalidRequestError,
    UpstreamError,
    WorkerBusyError,
    WorkerLostError,
)
from gateway.upstream.client import ConnectionTimeouts, WorkerAddress, WorkerAnswer, WorkerClient
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


async def test_a_unix_socket_works_too(tmp_path: Path, connect: Connect) -> None:
    socket_path = tmp_path / "w.sock"
    async with FakeWorker(uds=socket_path) as worker:
        answer, _ = await whole(connect("http://worker", socket_path=str(socket_path)), chat())

        assert answer.status == 200
        assert len(worker.requests) == 1


async def test_a_closed_connection_is_not_reused(
    worker: FakeWorker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.upstream.client._KEEP_ALIVE_SECONDS", 0.05)
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
