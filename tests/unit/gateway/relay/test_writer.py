import asyncio

import pytest

from gateway.relay.event_stream import EventStream, StreamPolicy
from gateway.relay.writer import DirectWriter
from tests.unit.gateway.ends import RecordingSink

POLICY = StreamPolicy(keep_alive_seconds=15, client_stuck_seconds=40, max_frame_bytes=10_000)


@pytest.mark.parametrize("stuck_after", [None, 1])
async def test_text_is_sent_at_once_or_refused(stuck_after: int | None) -> None:
    marks: list[int | None] = []
    sink = RecordingSink(stuck_after=stuck_after)
    async with EventStream(sink, POLICY, []) as out:
        writer = DirectWriter(out, marks.append)

        assert not writer.offer(b"first", 1)  # the head has to be sent first
        await writer.write(b"first", 1)
        offered = writer.offer(b"second", 2)

        assert offered is (stuck_after is None)
        assert marks == ([1, 2] if offered else [1])


async def test_the_end_is_marked_if_it_contains_text() -> None:
    marks: list[int | None] = []
    for tokens in (0, 3, None):
        sink = RecordingSink()
        async with asyncio.timeout(1), EventStream(sink, POLICY, []) as out:
            await DirectWriter(out, marks.append).end(b"last", tokens)

        assert (sink.body, sink.ended) == (b"last", True)

    assert marks == [3, None]
