import asyncio

import pytest

from gateway.protocol import KEEP_ALIVE
from gateway.relay.event_stream import EventStream, SlowClientError, StreamPolicy
from tests.unit.gateway.ends import RecordingSink
from tests.unit.gateway.virtual_time import in_virtual_time, now

POLICY = StreamPolicy(keep_alive_seconds=15, client_stuck_seconds=40)


@in_virtual_time
async def test_nothing_is_sent_until_the_first_keep_alive() -> None:
    sink = RecordingSink()
    async with EventStream(sink, POLICY, []) as out:
        await asyncio.sleep(14)
        assert (sink.started, out.started, out.delivered) == (False, False, False)
        await asyncio.sleep(17)

        assert sink.writes == [KEEP_ALIVE, KEEP_ALIVE]
        assert (out.started, out.delivered) == (True, False)


@in_virtual_time
async def test_every_frame_but_the_first_may_be_sent_without_waiting() -> None:
    sink = RecordingSink(stuck_after=3)
    async with EventStream(sink, POLICY, []) as out:
        assert out.flush()
        out.write(b"1")
        assert not out.flush()
        await out.drain()
        out.write(b"2")
        assert out.flush()
        await asyncio.sleep(14)
        out.write(b"3")
        assert out.flush()
        await asyncio.sleep(14)
        out.write(b"the client takes no more")
        assert not out.flush()

    assert sink.writes == [b"1", b"2", b"3"]


@in_virtual_time
async def test_frames_written_while_another_waits_follow_it() -> None:
    class SlowOnce(RecordingSink):
        async def write(self, data: bytes) -> None:
            if not self.writes:
                await asyncio.sleep(1)
            await super().write(data)

    sink = SlowOnce()
    async with EventStream(sink, POLICY, []) as out:
        out.write(b"1")
        draining = asyncio.create_task(out.drain())
        await asyncio.sleep(0.5)
        out.write(b"2")
        assert not out.flush()
        await draining
        await out.end(b"3")

    assert sink.body == b"123"


@in_virtual_time
async def test_silence_is_measured_from_the_last_frame() -> None:
    sink = RecordingSink()
    async with EventStream(sink, POLICY, []) as out:
        await asyncio.sleep(10)
        out.write(b"x")
        await out.drain()
        await asyncio.sleep(14.9)
        assert sink.body == b"x"
        await asyncio.sleep(0.2)

        assert sink.body == b"x" + KEEP_ALIVE


@in_virtual_time
async def test_a_client_that_reads_no_frame_is_dropped() -> None:
    async def stream() -> None:
        async with EventStream(RecordingSink(stuck_after=1), POLICY, []) as out:
            out.write(b"1")
            await out.drain()
            out.write(b"2")
            await out.drain()

    with pytest.raises(SlowClientError):
        await stream()

    assert 40 <= now() <= 55


@in_virtual_time
async def test_a_client_that_reads_no_comment_is_dropped() -> None:
    async def stream() -> None:
        async with EventStream(RecordingSink(stuck_after=0), POLICY, []):
            await asyncio.sleep(1000)

    with pytest.raises(SlowClientError):
        await stream()

    assert now() == 15 + 40


@in_virtual_time
async def test_cancellation_is_not_a_slow_client() -> None:
    async def stream() -> None:
        async with EventStream(RecordingSink(), POLICY, []):
            await asyncio.sleep(1000)

    task = asyncio.create_task(stream())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled()
