import asyncio

import pytest

from gateway.errors import UpstreamError, WorkerLostError, WorkerTimeoutError
from gateway.upstream.connection import Connection
from tests.unit.gateway.virtual_time import in_virtual_time, now

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\n"
LENGTH_2 = HEAD + b"content-length: 2\r\n\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
UNTIL_CLOSED = HEAD + b"a: b\r\n\r\n"


class Transport(asyncio.Transport):
    """The gateway's end of a connection, and what became of it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.aborted = False
        self.reading = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Worker:
    """The other end: a wire to it, whose answer the test plays."""

    def __init__(self, *, silence_seconds: float = 10.0) -> None:
        self.transport = Transport()
        self.wire = Connection(silence_seconds=silence_seconds)
        self.wire.connection_made(self.transport)

    async def asked(self, *answer: bytes) -> None:
        """Let the wire ask, and answer."""
        exchange = asyncio.create_task(self.wire.exchange(REQUEST))
        await asyncio.sleep(0)
        for piece in answer:
            self.wire.data_received(piece)
        await exchange

    async def body(self) -> bytes:
        found = b""
        while data := await self.wire.read_some():
            found += data
        return found


async def test_an_answer_is_read_and_the_connection_may_go_on() -> None:
    worker = Worker()
    for _ in range(2):
        await worker.asked(LENGTH_2, b"o", b"k")

        assert (worker.wire.status, worker.wire.headers) == (200, [(b"content-length", b"2")])
        assert await worker.body() == b"ok"
        worker.wire.release()
        assert worker.wire.is_reusable

    assert worker.transport.written == [REQUEST, REQUEST]


async def test_chunks_are_handed_over_as_they_come() -> None:
    worker = Worker()
    await worker.asked(CHUNKED)
    for piece in (b"one", b"two"):
        worker.wire.data_received(b"3\r\n" + piece + b"\r\n")
        assert await worker.wire.read_some() == piece

    worker.wire.data_received(b"0\r\n\r\n")
    assert await worker.wire.read_some() == b""


async def test_interim_answers_are_passed_over() -> None:
    worker = Worker()
    await worker.asked(
        b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", LENGTH_2
    )
    worker.wire.data_received(b"ok")

    assert (worker.wire.status, worker.wire.headers) == (200, [(b"content-length", b"2")])
    assert await worker.body() == b"ok"


async def test_an_answer_without_length_ends_with_its_connection() -> None:
    worker = Worker()
    await worker.asked(UNTIL_CLOSED, b"all ")
    worker.wire.data_received(b"of it")
    worker.wire.connection_lost(None)

    assert await worker.body() == b"all of it"
    worker.wire.release()
    assert not worker.wire.is_reusable


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (UNTIL_CLOSED + b"ok", ConnectionResetError()),
        (HEAD + b"content-length: 3\r\n\r\nok", None),
        (CHUNKED + b"2\r\nok\r\n", None),
    ],
    ids=["reset", "short", "no-last-chunk"],
)
async def test_what_came_before_a_break_is_handed_over_before_the_error(
    answer: bytes, reason: Exception | None
) -> None:
    worker = Worker()
    await worker.asked(answer)
    worker.wire.connection_lost(reason)

    assert await worker.wire.read_some() == b"ok"
    with pytest.raises(WorkerLostError) as caught:
        await worker.wire.read_some()
    assert caught.value.sent


async def test_a_break_wakes_whoever_waits() -> None:
    worker = Worker()
    exchange = asyncio.create_task(worker.wire.exchange(REQUEST))
    await asyncio.sleep(0)
    worker.wire.connection_lost(None)

    with pytest.raises(WorkerLostError) as caught:
        await exchange
    assert caught.value.sent


async def test_on_a_connection_that_is_gone_already_nothing_is_sent() -> None:
    worker = Worker()
    worker.wire.connection_lost(None)

    with pytest.raises(WorkerLostError) as caught:
        await worker.wire.exchange(REQUEST)

    worker.wire.release()
    assert not caught.value.sent
    assert worker.transport.written == []


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        HEAD + b"x: " + b"y" * 70_000,
        HEAD + b"x: " + b"y" * 70_000 + b"\r\n\r\n",
        HEAD + b"content-length: x\r\n\r\n",
        b"no HTTP at all\r\n\r\n",
    ],
    ids=["upgrade", "endless-head", "large-head", "bad-length", "other-protocol"],
)
async def test_an_answer_that_is_no_answer_is_refused(answer: bytes) -> None:
    worker = Worker()

    with pytest.raises(UpstreamError, match="bad answer"):
        await worker.asked(answer)

    worker.wire.release()
    assert worker.transport.aborted


@pytest.mark.parametrize(
    "sent", [LENGTH_2 + b"ok" + LENGTH_2 + b"no", LENGTH_2 + b"ok and more"], ids=["two", "junk"]
)
async def test_what_follows_an_answer_is_never_taken_for_the_next(sent: bytes) -> None:
    worker = Worker()
    await worker.asked(sent)

    assert await worker.body() == b"ok"
    assert worker.wire.headers == [(b"content-length", b"2")]
    worker.wire.release()
    assert not worker.wire.is_reusable


async def test_nor_is_what_comes_unasked() -> None:
    worker = Worker()
    await worker.asked(LENGTH_2 + b"ok")
    worker.wire.release()
    worker.wire.data_received(LENGTH_2 + b"no")

    assert worker.transport.aborted
    assert not worker.wire.is_reusable


@pytest.mark.parametrize(
    "answer", [LENGTH_2 + b"o", HEAD + b"connection: close\r\ncontent-length: 2\r\n\r\nok"]
)
async def test_a_half_read_answer_or_the_worker_may_end_the_connection(answer: bytes) -> None:
    worker = Worker()
    await worker.asked(answer)
    worker.wire.release()

    assert worker.transport.aborted


async def test_a_body_that_nobody_takes_is_not_read_on() -> None:
    worker = Worker()
    await worker.asked(UNTIL_CLOSED)
    worker.wire.data_received(b"x" * 100_000)
    assert worker.transport.reading

    worker.wire.data_received(b"x" * 100_000)
    assert not worker.transport.reading

    assert len(await worker.wire.read_some()) == 200_000
    assert worker.transport.reading


async def test_a_tap_takes_what_comes_and_nobody_wakes() -> None:
    worker, taken = Worker(), list[bytes]()

    def tap(data: bytes) -> bool:
        if data != b"no":
            taken.append(data)
        return data != b"no"

    await worker.asked(CHUNKED)
    reading = asyncio.create_task(worker.wire.read_some(tap))
    await asyncio.sleep(0)
    for piece in (b"2\r\nab\r\n", b"2\r\ncd\r\n"):
        worker.wire.data_received(piece)
        await asyncio.sleep(0)
        assert not reading.done()
    worker.wire.data_received(b"2\r\nno\r\n")

    assert await reading == b"no"
    assert taken == [b"ab", b"cd"]


async def test_a_tap_is_offered_nothing_while_nobody_waits() -> None:
    worker, taken = Worker(), list[bytes]()

    def tap(data: bytes) -> bool:
        taken.append(data)
        return True

    await worker.asked(CHUNKED)
    reading = asyncio.create_task(worker.wire.read_some(tap))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait({reading})
    worker.wire.data_received(b"2\r\nok\r\n")

    assert await worker.wire.read_some(tap) == b"ok"
    assert taken == []


@pytest.mark.parametrize("breaks", [False, True], ids=["end", "break"])
async def test_an_end_behind_what_a_tap_took_wakes(breaks: bool) -> None:
    worker = Worker()
    await worker.asked(CHUNKED)
    reading = asyncio.create_task(worker.wire.read_some(lambda data: True))
    await asyncio.sleep(0)
    worker.wire.data_received(b"2\r\nok\r\n" + (b"zz\r\n" if breaks else b"0\r\n\r\n"))

    if breaks:
        with pytest.raises(UpstreamError):
            await reading
    else:
        assert await reading == b""


@in_virtual_time
async def test_what_a_tap_takes_breaks_the_silence() -> None:
    worker = Worker(silence_seconds=10.0)
    await worker.asked(CHUNKED)
    began = now()
    reading = asyncio.create_task(worker.wire.read_some(lambda data: True))
    for _ in range(5):
        await asyncio.sleep(8)
        worker.wire.data_received(b"2\r\nok\r\n")

    with pytest.raises(WorkerTimeoutError):
        await reading

    assert now() - began == 50.0


@in_virtual_time
async def test_silence_ends_the_wait_for_a_head() -> None:
    worker, began = Worker(silence_seconds=10.0), now()

    with pytest.raises(WorkerTimeoutError):
        await worker.asked()

    assert now() - began == 10.0


@in_virtual_time
async def test_silence_ends_the_wait_for_a_body_but_not_the_clients_pause() -> None:
    worker = Worker(silence_seconds=10.0)
    await worker.asked(CHUNKED, b"2\r\nok\r\n")
    await asyncio.sleep(100)  # the client is slow
    assert await worker.wire.read_some() == b"ok"

    began = now()
    with pytest.raises(WorkerTimeoutError):
        await worker.wire.read_some()

    assert now() - began == 10.0
