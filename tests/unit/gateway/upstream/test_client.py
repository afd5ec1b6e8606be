import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import InvalidRequestError, UpstreamError, WorkerLostError, WorkerTimeoutError
from gateway.upstream.client import (
    ConnectionTimeouts,
    WorkerAddress,
    WorkerAnswer,
    WorkerClient,
)
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
    for connection in made:
        await connection.close()


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as started:
        yield started


def chat(*, stream: bool = False, **script: object) -> bytes:
    return json.dumps({"messages": [], "stream": stream, "fake": script}).encode()


async def whole(
    connection: WorkerClient, body: bytes = b"{}", headers: Mapping[str, str] | None = None
) -> tuple[WorkerAnswer, bytes]:
    async with connection.post(CHAT, body, headers or {}) as answer:
        return answer, await answer.read(max_bytes=10**6)


async def test_a_request_travels_as_it_is(worker: FakeWorker, connect: Connect) -> None:
    body = chat()
    answer, found = await whole(connect(worker.url), body, {"x-request-id": "r1"})

    (seen,) = worker.requests
    assert (answer.status, answer.is_event_stream) == (200, False)
    assert json.loads(found)["object"] == "chat.completion"
    assert (seen.path, seen.body, seen.headers["x-request-id"]) == (CHAT, body, "r1")


async def test_the_client_adds_no_words_of_its_own(connect: Connect) -> None:
    async with CannedServer(ok(b"{}")) as server:
        await whole(connect(server.url), b"{}", {"content-type": "application/json"})

    head = server.requests[0].split(b"\r\n\r\n")[0].lower().split(b"\r\n")
    assert {line.partition(b":")[0] for line in head[1:]} == {
        b"host",
        b"content-type",
        b"content-length",
    }


async def test_the_workers_key_is_added(worker: FakeWorker, connect: Connect) -> None:
    await whole(connect(worker.url, api_key="secret"), chat(), {"authorization": "Bearer x"})

    assert worker.requests[0].headers["authorization"] == "Bearer secret"


async def test_a_unix_socket_is_as_good(tmp_path: Path, connect: Connect) -> None:
    socket_path = tmp_path / "w.sock"
    async with FakeWorker(uds=socket_path) as worker:
        answer, _ = await whole(connect("http://worker", socket_path=str(socket_path)), chat())

        assert answer.status == 200
        assert len(worker.requests) == 1


async def test_connections_are_used_again(worker: FakeWorker, connect: Connect) -> None:
    connection = connect(worker.url)
    for _ in range(5):
        await whole(connection, chat())

    assert worker.connections == 1


async def test_a_connection_that_rests_for_long_is_closed(
    worker: FakeWorker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.upstream.client._KEEP_ALIVE_SECONDS", 0.05)
    connection = connect(worker.url)
    await whole(connection, chat())
    assert worker.connections == 1

    await eventually(lambda: worker.connections == 0)
    await whole(connection, chat())


async def test_a_connection_that_the_worker_closed_is_not_used_again(connect: Connect) -> None:
    async with CannedServer(ok(b"{}")) as server:
        connection = connect(server.url)
        for _ in range(3):
            await whole(connection)
            await asyncio.sleep(0.02)  # the server closes it meanwhile

    assert len(server.requests) == 3


async def test_closing_ends_what_runs(worker: FakeWorker, connect: Connect) -> None:
    connection = connect(worker.url)
    async with connection.post(CHAT, chat(stream=True, hang_after_chunks=0), {}) as answer:
        reading = asyncio.create_task(answer.read(max_bytes=10**6))
        await asyncio.sleep(0.02)
        await connection.close()

        with pytest.raises(WorkerLostError):
            await reading


async def test_a_shut_line_refuses_what_is_new_and_lets_the_rest_end(
    worker: FakeWorker, connect: Connect
) -> None:
    connection = connect(worker.url)
    await whole(connection, chat())  # leaves an idle connection behind

    async with connection.post(CHAT, chat(gap_seconds=0.01, stream=True), {}) as running:
        connection.shut()
        with pytest.raises(WorkerLostError) as refused:
            await whole(connection, chat())
        rest = await running.read(max_bytes=10**6)
    connection.reopen()
    answer, _ = await whole(connection, chat())

    assert not refused.value.sent
    assert rest.endswith(b"data: [DONE]\n\n")
    assert answer.status == 200
    assert len(worker.requests) == 3


async def test_a_header_cannot_end_its_line(worker: FakeWorker, connect: Connect) -> None:
    with pytest.raises(InvalidRequestError):
        await whole(connect(worker.url), b"{}", {"accept": "a\r\nx-injected: b"})

    assert worker.requests == []


async def test_a_path_is_quoted(worker: FakeWorker, connect: Connect) -> None:
    status, _ = await connect(worker.url).get("/a b\r\nc", timeout_seconds=1)

    assert status == 404


async def test_a_stream_is_known_by_its_type(worker: FakeWorker, connect: Connect) -> None:
    async with connect(worker.url).post(CHAT, chat(stream=True), {}) as answer:
        body = await answer.read(max_bytes=10**6)

    assert answer.is_event_stream
    assert body.endswith(b"data: [DONE]\n\n")


async def test_leaving_early_makes_the_worker_abort(worker: FakeWorker, connect: Connect) -> None:
    body = chat(stream=True, chunks=1000, gap_seconds=0.01)
    async with connect(worker.url).post(CHAT, body, {}) as answer:
        await answer.read_some()

    await eventually(lambda: worker.requests[0].aborted, within_seconds=1)


async def test_only_end_to_end_headers_go_on(connect: Connect) -> None:
    headers = (
        b"Content-Type: application/json",
        b"Connection: keep-alive",
        b"Keep-Alive: 5",
        b"Date: today",
        b"Server: uvicorn",
        b"Set-Cookie: a=b",
        b"X-Request-Id: theirs",
        b"X-Vendor: 1",
        b"X-Vendor: 2",
    )
    async with CannedServer(ok(b"{}", *headers)) as server:
        answer, _ = await whole(connect(server.url))

    assert answer.headers == [
        (b"content-type", b"application/json"),
        (b"x-vendor", b"1"),
        (b"x-vendor", b"2"),
    ]


async def test_compressed_bytes_pass_untouched(connect: Connect) -> None:
    packed = gzip.compress(b"{}")
    async with CannedServer(ok(packed, b"content-encoding: gzip")) as server:
        answer, found = await whole(connect(server.url))

    assert found == packed
    assert (b"content-encoding", b"gzip") in answer.headers


async def test_a_redirect_is_not_followed(connect: Connect) -> None:
    away = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
    async with CannedServer(away) as server:
        answer, _ = await whole(connect(server.url))

    assert answer.status == 302


async def test_cookies_are_not_kept(connect: Connect) -> None:
    async with CannedServer(ok(b"{}", b"set-cookie: a=b; path=/", b"connection: close")) as server:
        connection = connect(server.url)
        await whole(connection)
        await whole(connection)

    assert b"cookie" not in server.requests[1].lower()


async def test_a_worker_that_is_not_there_got_nothing(connect: Connect) -> None:
    async with CannedServer() as server:
        url = server.url

    with pytest.raises(WorkerLostError) as caught:
        await whole(connect(url))

    assert not caught.value.sent


async def test_a_socket_that_is_not_there_got_nothing(tmp_path: Path, connect: Connect) -> None:
    with pytest.raises(WorkerLostError) as caught:
        await whole(connect("http://worker", socket_path=str(tmp_path / "none.sock")))

    assert not caught.value.sent


@pytest.mark.parametrize(
    "script",
    [
        {"drop_before_headers": True},
        {"drop_before_headers": True, "reset": True},
        {"drop_after_headers": True},
        {"truncate_unary": True},
        {"truncate_unary": True, "reset": True},
    ],
    ids=str,
)
async def test_a_worker_that_breaks_off_may_have_begun(
    worker: FakeWorker, connect: Connect, script: dict[str, Any]
) -> None:
    with pytest.raises(WorkerLostError) as caught:
        await whole(connect(worker.url), chat(**script))

    assert caught.value.sent


@pytest.mark.parametrize(
    "script", [{"hang_before_headers": True}, {"hang_after_chunks": 2}], ids=["head", "body"]
)
async def test_a_worker_that_falls_silent_is_too_slow(
    worker: FakeWorker, connect: Connect, script: dict[str, Any]
) -> None:
    with pytest.raises(WorkerTimeoutError):
        await whole(connect(worker.url, silence=0.1), chat(stream=True, **script))


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x00\x01\x02\x03\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x-long: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhelloworld\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\n",
        b"",
    ],
    ids=[
        "other-protocol",
        "binary",
        "length-no-number",
        "head-too-long",
        "chunk-size-no-number",
        "chunk-too-long",
        "chunk-cut",
        "body-cut",
        "head-cut",
        "nothing",
    ],
)
async def test_what_is_no_http_is_the_workers_fault(answer: bytes, connect: Connect) -> None:
    async with CannedServer(answer) as server:
        with pytest.raises(UpstreamError):
            await whole(connect(server.url))


async def test_an_answer_over_the_bound_is_refused(worker: FakeWorker, connect: Connect) -> None:
    async with connect(worker.url).post(CHAT, chat(unary_bytes=5000), {}) as answer:
        with pytest.raises(UpstreamError, match="too large"):
            await answer.read(max_bytes=1000)


async def test_small_questions_are_answered(worker: FakeWorker, connect: Connect) -> None:
    connection = connect(worker.url, api_key="k")

    assert await connection.get("/health", timeout_seconds=1) == (200, b"")
    models = await connection.get_json("/v1/models", timeout_seconds=1)
    assert models["data"][0]["id"] == "fake-model"
    assert await connection.call(CHAT, chat(), timeout_seconds=1) == 200
    tokens = await connection.post_json("/tokenize", b'{"prompt":"a"}', timeout_seconds=1)
    assert tokens["tokens"] == [97]


async def test_a_small_question_waits_so_long(worker: FakeWorker, connect: Connect) -> None:
    worker.state.health_delay_seconds = 5
    connection = connect(worker.url)

    with pytest.raises(WorkerTimeoutError):
        await connection.get("/health", timeout_seconds=0.05)
    with pytest.raises(WorkerTimeoutError):
        await connection.call(CHAT, chat(hang_before_headers=True), timeout_seconds=0.05)


@pytest.mark.parametrize(
    "answer",
    [ok(b"oops"), ok(b"[1]"), ok(b"[" * 50_000), b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n"],
    ids=["no-json", "no-object", "deep", "503"],
)
async def test_an_answer_that_is_no_json_object_is_refused(answer: bytes, connect: Connect) -> None:
    async with CannedServer(answer) as server:
        with pytest.raises(UpstreamError):
            await connect(server.url).get_json("/v1/models", timeout_seconds=1)
        with pytest.raises(UpstreamError):
            await connect(server.url).post_json("/tokenize", b"{}", timeout_seconds=1)
