"""The judge of hostile requests finds what bad gateways do."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from bench.fuzz.clients import play_clients
from bench.fuzz.requests import RequestCase, Wire
from tests.fakes.worker import FakeWorker

_KEY = "sg-key"
_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
_ERROR = b"HTTP/1.1 500 x\r\ncontent-length: 2\r\n\r\n{}"


@asynccontextmanager
async def _answering(answer_to: Callable[[bytes], bytes]) -> AsyncIterator[int]:
    """A gateway that answers what it reads first, and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if data := await reader.read(65_536):
            writer.write(answer_to(data))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def _splitting(worker: FakeWorker) -> AsyncIterator[int]:
    """A gateway that passes everything on, so that the worker decides where a request ends."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, passed = await asyncio.open_connection("127.0.0.1", worker.port)
        while data := await reader.read(65_536):
            passed.write(data)
            writer.write(_OK)
        passed.close()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


def _case(*, answers: int | None = None) -> RequestCase:
    wire = Wire(_KEY, "r0000000")
    return RequestCase(wire.tag, (wire.post(wire.body()),), answers=answers)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (_ERROR, "own_5xx"),
        (b"hello\r\n\r\n", "wrong_answer"),
        (_OK.replace(b"200", b"307"), "wrong_answer"),
        (_OK[:-1], "wrong_answer"),
    ],
    ids=["5xx", "no HTTP", "redirect", "cut"],
)
async def test_a_bad_answer_is_found(answer: bytes, kind: str) -> None:
    def bad_unless_good(request: bytes) -> bytes:
        return _OK if b"x-request-id: good" in request else answer

    async with FakeWorker() as worker, _answering(bad_unless_good) as port:
        case = _case(answers=None if kind != "wrong_answer" else 1)
        findings = await play_clients(port, worker, [case], key=_KEY)

    assert findings.cases == 1
    assert set(findings.counts) == {kind}


async def test_a_smuggled_request_is_found() -> None:
    wire = Wire(_KEY, "r0000000")
    hidden = wire.post(wire.body())
    head = wire.head(target=b"/metrics")
    two_for_the_worker = head + hidden + hidden.replace(b"x-request-id: ", b"x-request-id: b-")

    async with FakeWorker() as worker, _splitting(worker) as port:
        case = RequestCase(wire.tag, (b"\n" + two_for_the_worker,))
        findings = await play_clients(port, worker, [case], key=_KEY)

    assert findings.counts["smuggled"] == 1


async def test_good_answers_are_no_finding() -> None:
    async with FakeWorker() as worker, _answering(lambda _: _OK) as port:
        findings = await play_clients(port, worker, [_case(answers=1)], key=_KEY)

    assert findings.counts == {}
    assert findings.by_status["200"] == 2
