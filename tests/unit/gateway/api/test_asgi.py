import asyncio
from collections.abc import Awaitable, Callable

import pytest
from starlette.types import Message

from gateway.api.asgi import (
    AsgiSink,
    BodyPolicy,
    ClientGoneError,
    ended_by_disconnect,
    read_body,
)
from gateway.errors import (
    BodyTooLargeError,
    BytesInFlightError,
    RequestTimeoutError,
    UnsupportedMediaTypeError,
)
from tests.unit.gateway.virtual_time import now, run_in_virtual_time

Receive = Callable[[], Awaitable[Message]]
GONE: Message = {"type": "http.disconnect"}
POLICY = BodyPolicy(max_bytes=10, total_seconds=5, idle_seconds=2)


def receiving(*steps: Message | float) -> Receive:
    """A client that sends messages and waits between them, then nothing more."""
    left = list(steps)

    async def receive() -> Message:
        while left:
            step = left.pop(0)
            if not isinstance(step, float):
                return step
            await asyncio.sleep(step)
        await asyncio.sleep(10**6)
        raise AssertionError("waited for ever")

    return receive


def piece(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def ignore(message: Message) -> None:
    pass


def uncounted(length: int) -> None:
    pass


async def test_a_sink_sends_asgi_messages() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    sink = AsgiSink(send)
    await sink.start(201, ((b"a", b"b"),))
    await sink.write(b"1")
    await sink.end(b"2")

    assert (sink.started, sink.ended) == (True, True)
    assert sent == [
        {"type": "http.response.start", "status": 201, "headers": [(b"a", b"b")]},
        {"type": "http.response.body", "body": b"1", "more_body": True},
        {"type": "http.response.body", "body": b"2", "more_body": False},
    ]


async def test_a_sink_writes_directly_if_the_server_allows_it() -> None:
    sent: list[Message] = []
    direct: list[bytes] = []

    async def send(message: Message) -> None:
        sent.append(message)

    class Socket:
        aborted = False

        def write_now(self, data: bytes) -> bool:
            direct.append(data)
            return data != b"refused"

        def abort(self) -> None:
            self.aborted = True

    socket = Socket()
    sink = AsgiSink(send, socket)
    await sink.write(b"taken")
    await sink.write(b"refused")
    assert sink.write_now(b"now")
    assert not sink.write_now(b"refused")
    await sink.end(b"last")
    sink.abort()

    assert socket.aborted
    assert not AsgiSink(send).write_now(b"now")
    assert direct == [b"taken", b"refused", b"now", b"refused"]
    assert [message["body"] for message in sent] == [b"refused", b"last"]


async def read(
    *steps: Message | float, headers: dict[bytes, bytes] | None = None
) -> tuple[bytes, float]:
    """A body, and when it was complete."""
    return await read_body(receiving(*steps), headers or {}, uncounted, POLICY), now()


def test_a_body_is_joined() -> None:
    pieces = (piece(b"1", more=True), piece(b"", more=True), 1.0, piece(b"23"))

    assert run_in_virtual_time(read(*pieces)) == (b"123", 1)


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        ([piece(b"1", more=True)], 2),
        ([], 2),
        ([*[piece(b"1", more=True), 1.5] * 4], 5),
    ],
    ids=["stopped", "silent", "slow"],
)
def test_the_time_for_a_body_and_between_its_pieces_is_limited(
    steps: list[Message | float], seconds: float
) -> None:
    async def scenario() -> None:
        with pytest.raises(RequestTimeoutError) as caught:
            await read(*steps)

        assert (now(), caught.value.status) == (seconds, 408)

    run_in_virtual_time(scenario())


@pytest.mark.parametrize("size", [0, 9, 10])
def test_a_body_up_to_the_limit_passes(size: int) -> None:
    headers = {b"content-length": str(size).encode()}

    assert run_in_virtual_time(read(piece(b"x" * size), headers=headers))[0] == b"x" * size


@pytest.mark.parametrize(
    ("announced", "left"), [(b"11", 2), (b"x", 0), (b"5", 0)], ids=["announced", "chunked", "lie"]
)
def test_a_body_over_the_limit_is_refused_as_soon_as_that_is_known(
    announced: bytes, left: int
) -> None:
    steps = [piece(b"x" * 10, more=True), piece(b"x", more=True)]

    async def receive() -> Message:
        return steps.pop(0)

    with pytest.raises(BodyTooLargeError) as caught:
        run_in_virtual_time(read_body(receive, {b"content-length": announced}, uncounted, POLICY))

    assert caught.value.status == 413
    assert len(steps) == left


@pytest.mark.parametrize("encoding", [b"gzip", b"GZIP, identity", b"br"])
def test_a_compressed_body_is_refused_unread(encoding: bytes) -> None:
    with pytest.raises(UnsupportedMediaTypeError) as caught:
        run_in_virtual_time(read(headers={b"content-encoding": encoding}))

    assert caught.value.status == 415


def test_a_disconnect_while_sending_is_reported() -> None:
    with pytest.raises(ClientGoneError):
        run_in_virtual_time(read(piece(b"1", more=True), GONE))


def test_each_piece_of_a_body_is_counted_before_the_next_is_read() -> None:
    counted: list[int] = []

    def hold(length: int) -> None:
        counted.append(length)
        if len(counted) == 2:
            raise BytesInFlightError("full", retry_after_seconds=1)

    receive = receiving(piece(b"12", more=True), piece(b"345", more=True), 1.0, piece(b"6"))

    with pytest.raises(BytesInFlightError):
        run_in_virtual_time(read_body(receive, {}, hold, POLICY))
    assert counted == [2, 3]


def test_a_disconnect_ends_the_block() -> None:
    async def scenario() -> None:
        ended = False

        async def work() -> None:
            nonlocal ended
            async with ended_by_disconnect(receiving(3.0, GONE), AsgiSink(ignore)):
                try:
                    await asyncio.sleep(100)
                finally:
                    ended = True

        with pytest.raises(ClientGoneError):
            await work()

        assert (now(), ended) == (3, True)
        await asyncio.sleep(1)  # the task is not left half cancelled

    run_in_virtual_time(scenario())


def test_a_block_that_ends_first_is_not_cancelled() -> None:
    async def scenario() -> None:
        async with ended_by_disconnect(receiving(3.0, GONE), AsgiSink(ignore)):
            await asyncio.sleep(1)
        await asyncio.sleep(10)

        assert now() == 11

    run_in_virtual_time(scenario())


def test_further_body_messages_are_no_disconnect() -> None:
    async def scenario() -> None:
        async with ended_by_disconnect(receiving(piece(b""), piece(b"")), AsgiSink(ignore)):
            await asyncio.sleep(1)

    run_in_virtual_time(scenario())


def test_a_disconnect_after_the_end_is_ignored() -> None:
    async def scenario() -> None:
        sink = AsgiSink(ignore)
        async with ended_by_disconnect(receiving(1.0, GONE), sink):
            await sink.start(200, ())
            await sink.end()
            await asyncio.sleep(2)

    run_in_virtual_time(scenario())


def test_another_cancellation_is_not_converted() -> None:
    async def scenario() -> None:
        async def work() -> None:
            async with ended_by_disconnect(receiving(), AsgiSink(ignore)):
                await asyncio.sleep(100)

        task = asyncio.create_task(work())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait({task})

        assert task.cancelled()

    run_in_virtual_time(scenario())


def test_another_cancellation_takes_precedence_over_a_disconnect() -> None:
    async def scenario() -> None:
        async def leave_as_we_are_cancelled() -> Message:
            await asyncio.sleep(1)
            asyncio.get_running_loop().call_soon(task.cancel)
            return GONE

        async def work() -> None:
            async with ended_by_disconnect(leave_as_we_are_cancelled, AsgiSink(ignore)):
                await asyncio.sleep(100)

        task = asyncio.create_task(work())
        await asyncio.wait({task})

        assert task.cancelled()

    run_in_virtual_time(scenario())


def test_an_error_of_the_block_is_raised() -> None:
    async def work() -> None:
        async with ended_by_disconnect(receiving(), AsgiSink(ignore)):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_in_virtual_time(work())
