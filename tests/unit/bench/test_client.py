"""The load client takes answers whole, times them in order, and calls a bad answer bad."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bench.client import LoadConnection
from bench.stream_call import Call, stream_call, unary_call
from tests.fakes.worker import FakeWorker


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as started:
        started.state.models = ["fake-model"]
        yield started


@pytest.fixture
async def connection(worker: FakeWorker) -> AsyncIterator[LoadConnection]:
    opened = await LoadConnection.open(worker.port)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "call",
    [unary_call(), stream_call(chunks=1), stream_call(chunks=100)],
    ids=["unary", "one-chunk", "hundred-chunks"],
)
async def test_good_answer_has_no_flaw(connection: LoadConnection, call: Call) -> None:
    first = await connection.exchange(call.wire, timeout_seconds=5.0)
    second = await connection.exchange(call.wire, timeout_seconds=5.0)

    assert call.flaw_of(first) is None
    assert call.flaw_of(second) is None
    assert first.sent_ns < first.first_byte_ns <= first.end_ns < second.sent_ns


async def test_first_byte_comes_before_the_gaps(connection: LoadConnection) -> None:
    call = stream_call(chunks=4, gap_seconds=0.05)

    exchange = await connection.exchange(call.wire, timeout_seconds=5.0)

    assert exchange.end_ns - exchange.first_byte_ns > 140_000_000
    assert exchange.first_byte_ns - exchange.sent_ns < 50_000_000


async def test_status_is_a_flaw(worker: FakeWorker, connection: LoadConnection) -> None:
    worker.state.models = ["another"]

    exchange = await connection.exchange(unary_call().wire, timeout_seconds=5.0)

    assert str(unary_call().flaw_of(exchange)).startswith("status 404")


async def test_missing_chunk_is_a_flaw(connection: LoadConnection) -> None:
    short = await connection.exchange(stream_call(chunks=3).wire, timeout_seconds=5.0)

    assert stream_call(chunks=5).flaw_of(short) == "5 events for 5 chunks"


async def test_missing_done_is_a_flaw(connection: LoadConnection) -> None:
    whole = await connection.exchange(stream_call(chunks=4).wire, timeout_seconds=5.0)
    cut = replace(whole, body=whole.body.replace(b"data: [DONE]", b""))

    assert stream_call(chunks=4).flaw_of(cut) == "no [DONE]"


async def test_late_answer_ends_the_connection(connection: LoadConnection) -> None:
    call = stream_call(chunks=3, gap_seconds=1.0)

    with pytest.raises(TimeoutError):
        await connection.exchange(call.wire, timeout_seconds=0.1)

    with pytest.raises(ConnectionResetError):
        await connection.exchange(call.wire, timeout_seconds=0.1)


async def test_broken_connection_is_reported(
    worker: FakeWorker, connection: LoadConnection
) -> None:
    await worker.stop()

    with pytest.raises(ConnectionError):
        await connection.exchange(unary_call().wire, timeout_seconds=5.0)
