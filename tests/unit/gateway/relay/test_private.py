import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.pacing import Packetizer
from gateway.protocol import FrameSplitter, padded
from gateway.protocol.sse import data_of
from gateway.relay.private import PrivatePolicy, PrivateSink
from tests.unit.gateway.ends import RecordingSink
from tests.unit.gateway.virtual_time import now, run_in_virtual_time

POLICY = PrivatePolicy(tick_seconds=0.05, packet_bytes=256, start_seconds=0.5, min_seconds=2.0)
DONE = b"data: [DONE]\n\n"


def chunk(text: str) -> bytes:
    return (
        b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"' + text.encode() + b'"}}]}\n\n'
    )


class Client(RecordingSink):
    """Records its packets.

    Attributes:
        packets: Time and size of each write.
    """

    def __init__(self, *, stuck_after: int | None = None) -> None:
        super().__init__(stuck_after=stuck_after)
        self.packets: list[tuple[float, int]] = []

    async def write(self, data: bytes) -> None:
        await super().write(data)
        self.packets.append((round(now(), 6), len(data)))

    async def end(self, data: bytes = b"") -> None:
        await super().end(data)
        self.packets.append((round(now(), 6), len(data)))

    @property
    def data(self) -> list[bytes]:
        """The data of each event, without obfuscation."""
        found = map(data_of, FrameSplitter(10_000).feed(self.body))
        return [data.split(b',"obfuscation"')[0].rstrip(b"}") for data in found if data]


class Private:
    """One private stream and its result."""

    def __init__(self, *, stuck_after: int | None = None) -> None:
        self.client = Client(stuck_after=stuck_after)
        self.marks: list[int | None] = []
        self.added: list[float] = []

    def run(self, scenario: Callable[[PrivateSink], Awaitable[None]]) -> "Private":
        async def whole() -> None:
            packetizer = Packetizer(
                packet_bytes=POLICY.packet_bytes,
                min_ticks=POLICY.min_ticks,
                pad=lambda data, size: padded(data, size=size, filling=b"f" * size),
            )
            async with PrivateSink(
                self.client,
                packetizer,
                POLICY,
                mark=self.marks.append,
                added=lambda seconds, tokens: self.added.extend([seconds] * tokens),
            ) as sink:
                await scenario(sink)

        run_in_virtual_time(whole())
        return self


async def _quick(sink: PrivateSink) -> None:
    await asyncio.sleep(0.123)
    await sink.start(200, [(b"a", b"b")])
    await sink.end(chunk("a") + DONE)


async def _bursty(sink: PrivateSink) -> None:
    await asyncio.sleep(0.456)
    await sink.start(200, [(b"a", b"b")])
    for number in range(12):
        assert sink.write_now(chunk("a") * (number % 4))
        await asyncio.sleep(0.02 * (number % 7))
    await sink.end(chunk("b") + DONE)


def test_different_streams_look_alike_on_a_clock_that_starts_with_the_request() -> None:
    quick, bursty = Private().run(_quick), Private().run(_bursty)

    assert quick.client.packets == bursty.client.packets
    assert {size for _, size in quick.client.packets} == {256}
    assert len(quick.client.packets) == POLICY.min_ticks
    times = [time for time, _ in quick.client.packets]
    assert times == pytest.approx([0.5 + 0.05 * number for number in range(len(times))])
    assert quick.client.writes[-1].startswith(DONE)


def test_the_client_reads_what_was_written() -> None:
    bursty = Private().run(_bursty)

    wanted = [*[chunk("a")] * 18, chunk("b"), DONE]
    assert bursty.client.data == [data_of(frame).rstrip(b"}") for frame in wanted]
    assert bursty.client.ended
    assert bursty.client.headers == [(b"a", b"b")]


def test_tokens_are_marked_when_they_are_sent() -> None:
    async def scenario(sink: PrivateSink) -> None:
        await sink.start(200, [])
        sink.write_now(chunk("a" * 500))
        sink.mark_queued(5)
        await asyncio.sleep(0.52)
        sink.write_now(chunk("b"))
        sink.mark_queued(None)
        assert private.marks == []
        await sink.end(DONE)

    private = Private()
    private.run(scenario)

    assert private.marks == [5, None]
    assert private.added == pytest.approx([0.6] * 5 + [0.08])


def test_a_client_that_leaves_stops_the_clock() -> None:
    async def scenario(sink: PrivateSink) -> None:
        await sink.start(200, [])
        sink.write_now(chunk("a"))
        await asyncio.sleep(0.7)

    private = Private().run(scenario)

    assert not private.client.ended
    assert private.client.packets[-1][0] <= 0.7


def test_a_cancelled_end_can_be_awaited_again_and_hurried() -> None:
    async def scenario(sink: PrivateSink) -> None:
        await sink.start(200, [])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.72):
                await sink.end(chunk("a") + DONE)
        sink.hurry()
        await sink.end(b"another end")

    private = Private().run(scenario)

    assert private.client.data == [data_of(chunk("a")).rstrip(b"}"), b"[DONE]"]
    assert private.client.ended
    assert private.client.packets[-1][0] == pytest.approx(0.75)


def test_a_worker_far_ahead_waits() -> None:
    async def scenario(sink: PrivateSink) -> None:
        await sink.start(200, [])
        await sink.write(b": x\n\n" * 60_000)
        assert not sink.write_now(chunk("a"))
        began = now()
        await sink.write(chunk("a"))
        assert now() > began
        await sink.end(DONE)

    private = Private().run(scenario)

    assert private.client.data == [data_of(chunk("a")).rstrip(b"}"), b"[DONE]"]


def test_an_error_of_the_client_reaches_the_writer() -> None:
    class Broken(Client):
        async def write(self, data: bytes) -> None:
            raise ZeroDivisionError

    async def scenario(sink: PrivateSink) -> None:
        await sink.start(200, [])
        await asyncio.sleep(1)
        await sink.write(chunk("a"))

    private = Private()
    private.client = Broken()

    with pytest.raises(ZeroDivisionError):
        private.run(scenario)
