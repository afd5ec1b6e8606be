import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UpstreamError, WorkerLostError, WorkerTimeoutError
from gateway.upstream.connection import Connection
from tests.unit.gateway.virtual_time import in_virtual_time, now, run_in_virtual_time

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\n"
LENGTH_2 = HEAD + b"content-length: 2\r\n\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
UNTIL_CLOSED = HEAD + b"a: b\r\n\r\n"


class Transport(asyncio.Transport):
    """The gateway's end of a connection; records what happens to it."""

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
    """A connection, and the worker at its other end, played by the test."""

    def __init__(self, *, silence_seconds: float = 10.0) -> None:
        self.transport = Transport()
        self.connection = Connection(silence_seconds=silence_seconds)
        self.connection.connection_made(self.transport)

    async def asked(self, *answer: bytes) -> None:
        """Send a request and answer it."""
        exchange = asyncio.create_task(self.connection.exchange(REQUEST))
        await asyncio.sleep(0)
        for piece in answer:
            self.connection.data_received(piece)
        await exchange

    async def body(self) -> bytes:
        found = b""
        while data := await self.connection.read_some():
            found += data
        return found


ANSWERS = st.sampled_from(
    [
        LENGTH_2 + b"ok",
        CHUNKED + b"1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + LENGTH_2 + b"ok",
        HEAD + b"connection: close\r\ncontent-length: 2\r\n\r\nok",
        UNTIL_CLOSED + b"ok",
    ]
)


@given(ANSWERS, st.lists(st.integers(1, 60), max_size=5))
def test_any_split_of_an_answer_gives_the_same(answer: bytes, cuts: list[int]) -> None:
    async def scenario() -> None:
        worker, connection = (each := Worker()), each.connection
        borders = [0, *sorted({min(cut, len(answer) - 1) for cut in cuts}), len(answer)]
        await worker.asked(*(answer[a:b] for a, b in pairwise(borders)))
        if answer.startswith(UNTIL_CLOSED):
            connection.connection_lost(None)

        assert (connection.status, len(connection.headers)) == (200, 1 + (b"close" in answer))
        assert await worker.body() == b"ok"
        connection.release()
        is_last = answer.startswith(UNTIL_CLOSED) or b"close" in answer
        assert connection.is_idle is not is_last
        if not is_last:
            await worker.asked(LENGTH_2 + b"ok")
            assert await worker.body() == b"ok"
            assert worker.transport.written == [REQUEST, REQUEST]

    run_in_virtual_time(scenario())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (UNTIL_CLOSED + b"ok", ConnectionResetError()),
        (HEAD + b"content-length: 3\r\n\r\nok", None),
        (CHUNKED + b"2\r\nok\r\n", None),
    ],
    ids=["reset", "short", "no-last-chunk"],
)
async def test_bytes_before_a_break_are_read_before_the_error(
    answer: bytes, reason: Exception | None
) -> None:
    worker = Worker()
    await worker.asked(answer)
    worker.connection.connection_lost(reason)

    assert await worker.connection.read_some() == b"ok"
    with pytest.raises(WorkerLostError) as caught:
        await worker.connection.read_some()
    assert caught.value.sent


@pytest.mark.parametrize("sent", [False, True], ids=["before", "after"])
async def test_a_break_before_the_head_says_whether_the_request_was_sent(sent: bool) -> None:
    worker = Worker()
    if not sent:
        worker.connection.connection_lost(None)
    exchange = asyncio.create_task(worker.connection.exchange(REQUEST))
    await asyncio.sleep(0)
    if sent:
        worker.connection.connection_lost(None)

    with pytest.raises(WorkerLostError) as caught:
        await exchange

    worker.connection.release()
    assert caught.value.sent is sent
    assert worker.transport.written == [REQUEST] * sent


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        HEAD + b"x: " + b"y" * 70_000,
        HEAD + b"x: " + b"y" * 70_000 + b"\r\n\r\n",
        HEAD + b"content-length: x\r\n\r\n",
        b"no HTTP at all\r\n\r\n",
        CHUNKED + b"zz\r\nhello\r\n",
        CHUNKED + b"5\r\nhelloworld\r\n",
        HEAD + b"transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\nok",
        HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\nok!",
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 3_000,
    ],
    ids=lambda answer: repr(answer[:60]),
)
async def test_an_invalid_answer_is_refused(answer: bytes) -> None:
    worker = Worker()

    async def read() -> None:
        await worker.asked(answer)
        await worker.body()

    with pytest.raises(UpstreamError, match="bad answer"):
        await read()

    worker.connection.release()
    assert worker.transport.aborted


@pytest.mark.parametrize(
    ("sent", "unsolicited"),
    [
        (LENGTH_2 + b"ok" + LENGTH_2 + b"no", b""),
        (LENGTH_2 + b"ok and more", b""),
        (LENGTH_2 + b"ok", LENGTH_2 + b"no"),
        (LENGTH_2 + b"o", b""),
    ],
    ids=["second-answer", "junk", "unsolicited", "incomplete"],
)
async def test_bytes_after_an_answer_are_never_read_as_the_next(
    sent: bytes, unsolicited: bytes
) -> None:
    worker = Worker()
    await worker.asked(sent)

    assert (await worker.connection.read_some()).startswith(b"o")
    assert worker.connection.headers == [(b"content-length", b"2")]
    worker.connection.release()
    if unsolicited:
        worker.connection.data_received(unsolicited)
    assert not worker.connection.is_idle
    assert worker.transport.aborted


async def test_trailers_are_not_headers() -> None:
    worker = Worker()
    await worker.asked(CHUNKED, b"2\r\nok\r\n0\r\nx-trailer: 1\r\n\r\n")

    assert await worker.body() == b"ok"
    assert worker.connection.headers == [(b"transfer-encoding", b"chunked")]


async def test_a_close_while_the_head_is_awaited_is_a_loss() -> None:
    worker = Worker()
    exchange = asyncio.create_task(worker.connection.exchange(REQUEST))
    await asyncio.sleep(0)
    worker.connection.close()
    worker.connection.connection_lost(None)

    with pytest.raises(WorkerLostError) as caught:
        await exchange
    assert caught.value.sent


@in_virtual_time
async def test_the_end_of_a_body_that_nobody_reads_is_awaited_for_a_moment() -> None:
    worker = Worker()
    await worker.asked(CHUNKED, b"2\r\nok\r\n")
    await worker.connection.read_some()
    draining = asyncio.create_task(worker.connection.drain())
    await asyncio.sleep(0.05)
    worker.connection.data_received(b"0\r\n\r\n")
    await draining
    worker.connection.release()

    assert worker.connection.is_idle
    await worker.asked(LENGTH_2 + b"ok")
    assert await worker.body() == b"ok"


@pytest.mark.parametrize(
    "rest",
    [b"", b"2\r\nok\r\n" * 10_000, b"zz\r\n"],
    ids=["late", "long", "broken"],
)
@in_virtual_time
async def test_a_rest_that_is_late_long_or_broken_closes_the_connection(rest: bytes) -> None:
    worker, began = Worker(), now()
    await worker.asked(CHUNKED, b"2\r\nok\r\n")
    await worker.connection.read_some()
    draining = asyncio.create_task(worker.connection.drain())
    for start in range(0, len(rest), 10_000):
        await asyncio.sleep(0)
        worker.connection.data_received(rest[start : start + 10_000])
    await draining
    worker.connection.release()

    assert now() - began <= 0.1
    assert worker.transport.aborted


async def test_a_complete_answer_that_was_not_read_does_not_disturb_the_next() -> None:
    worker = Worker()
    await worker.asked(HEAD + b"content-length: 200000\r\n\r\n", b"x" * 200_000)
    assert not worker.transport.reading
    worker.connection.release()

    assert worker.transport.reading
    await worker.asked(LENGTH_2 + b"ok")
    assert await worker.body() == b"ok"


async def test_an_unread_body_pauses_the_socket() -> None:
    worker = Worker()
    await worker.asked(UNTIL_CLOSED)
    worker.connection.data_received(b"x" * 100_000)
    assert worker.transport.reading

    worker.connection.data_received(b"x" * 100_000)
    assert not worker.transport.reading

    assert len(await worker.connection.read_some()) == 200_000
    assert worker.transport.reading


async def test_bytes_are_received_without_waking_the_reader_until_it_is_wanted() -> None:
    worker, received = Worker(), list[bytes]()

    def receive(data: bytes) -> bool:
        received.append(data)
        return data != b"no"

    await worker.asked(CHUNKED)
    reading = asyncio.create_task(worker.connection.feed(receive))
    await asyncio.sleep(0)
    for piece in (b"2\r\nab\r\n", b"2\r\ncd\r\n"):
        worker.connection.data_received(piece)
        await asyncio.sleep(0)
        assert not reading.done()
    worker.connection.data_received(b"2\r\nno\r\n")
    worker.connection.data_received(b"2\r\nef\r\n")  # before the reader wakes
    assert await reading
    assert received == [b"ab", b"cd", b"no"]
    worker.connection.data_received(b"0\r\n\r\n")

    assert not await worker.connection.feed(receive)
    assert received == [b"ab", b"cd", b"no", b"ef"]


async def test_a_large_piece_that_is_received_lets_more_in() -> None:
    worker = Worker()
    await worker.asked(HEAD + b"content-length: 1000000\r\n\r\n")
    reading = asyncio.create_task(worker.connection.feed(lambda _: True))
    await asyncio.sleep(0)

    worker.connection.data_received(b"x" * 2**18)

    assert worker.transport.reading
    reading.cancel()


@pytest.mark.parametrize("goes_on", [False, True], ids=["pause", "go-on"])
@pytest.mark.parametrize("breaks", [False, True], ids=["end", "break"])
async def test_an_end_in_the_same_packet_as_the_last_bytes_is_not_missed(
    breaks: bool, goes_on: bool
) -> None:
    worker = Worker()
    await worker.asked(CHUNKED)
    reading = asyncio.create_task(worker.connection.feed(lambda _: goes_on))
    await asyncio.sleep(0)
    worker.connection.data_received(b"2\r\nok\r\n" + (b"zz\r\n" if breaks else b"0\r\n\r\n"))
    if not goes_on:
        assert await reading
        reading = asyncio.create_task(worker.connection.feed(lambda _: goes_on))

    if breaks:
        with pytest.raises(UpstreamError):
            await reading
    else:
        assert not await reading


async def test_what_a_receiver_raises_is_raised_in_the_reading_task() -> None:
    def receive(data: bytes) -> bool:
        raise ZeroDivisionError

    worker = Worker()
    await worker.asked(CHUNKED)
    reading = asyncio.create_task(worker.connection.feed(receive))
    await asyncio.sleep(0)
    worker.connection.data_received(b"2\r\nok\r\n")

    with pytest.raises(ZeroDivisionError):
        await reading

    worker.connection.release()
    assert worker.transport.aborted


@in_virtual_time
async def test_received_bytes_end_the_silence() -> None:
    worker = Worker(silence_seconds=10.0)
    await worker.asked(CHUNKED)
    began = now()
    reading = asyncio.create_task(worker.connection.feed(lambda data: True))
    for _ in range(5):
        await asyncio.sleep(8)
        worker.connection.data_received(b"2\r\nok\r\n")

    with pytest.raises(WorkerTimeoutError):
        await reading

    assert now() - began == 50.0


@in_virtual_time
async def test_silence_ends_the_wait_for_a_head_or_body_but_a_slow_client_does_not() -> None:
    headless, began = Worker(silence_seconds=10.0), now()
    with pytest.raises(WorkerTimeoutError):
        await headless.asked()
    assert now() - began == 10.0

    worker = Worker(silence_seconds=10.0)
    await worker.asked(CHUNKED, b"2\r\nok\r\n")
    await asyncio.sleep(100)  # the client is slow
    assert await worker.connection.read_some() == b"ok"

    began = now()
    with pytest.raises(WorkerTimeoutError):
        await worker.connection.read_some()

    assert now() - began == 10.0
