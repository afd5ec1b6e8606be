import asyncio
from typing import Any

import pytest

from gateway.pacing import Wheel
from gateway.protocol import Endpoint
from gateway.relay.event_stream import EventStream, StreamPolicy
from gateway.relay.pacers import Pacers, PacingMeters
from gateway.relay.private import PrivatePolicy, PrivateSink
from gateway.relay.smooth import SmoothPolicy, SmoothWriter
from gateway.relay.writer import DirectWriter
from gateway.types import PacingMode
from tests.unit.gateway.ends import RecordingSink
from tests.unit.gateway.requests import CHAT, COMPLETIONS, EMBEDDINGS, request_to
from tests.unit.gateway.virtual_time import in_virtual_time

STREAM = StreamPolicy(keep_alive_seconds=15, client_stuck_seconds=40, max_frame_bytes=10_000)


def pacers(streams: list[str]) -> Pacers:
    return Pacers(
        Wheel(asyncio.get_running_loop()),
        smooth=SmoothPolicy(0.12, 0.03),
        private=PrivatePolicy(0.05, 512, 0.5, 2.0),
        meters=PacingMeters(streams.append, *[lambda *_: None] * 3),
    )


@pytest.mark.parametrize(
    ("mode", "endpoint", "body", "used", "writer", "wraps"),
    [
        ("off", CHAT, {}, "off", DirectWriter, False),
        ("smooth", CHAT, {}, "smooth", SmoothWriter, False),
        ("private", CHAT, {}, "private", DirectWriter, True),
        ("smooth", CHAT, {"n": 2}, "off", DirectWriter, False),
        ("smooth", COMPLETIONS, {"prompt": ["a", "b"]}, "off", DirectWriter, False),
        ("smooth", EMBEDDINGS, {}, "off", DirectWriter, False),
    ],
    ids=["off", "smooth", "private", "choices", "prompts", "unknown-stream"],
)
@in_virtual_time
async def test_each_mode_has_its_sink_and_writer(
    mode: PacingMode,
    endpoint: Endpoint,
    body: dict[str, Any],
    used: str,
    writer: type[object],
    wraps: bool,
) -> None:
    streams: list[str] = []
    sink = RecordingSink()
    request = request_to(endpoint, stream=True, **body)
    async with pacers(streams).open(mode, request, sink, lambda _: None) as paced:
        async with EventStream(paced.sink, STREAM, []) as out:
            assert type(paced.writer(out)) is writer
        assert isinstance(paced.sink, PrivateSink) is wraps
        assert (paced.end_seconds > 0) is wraps
    assert streams == [used]


@in_virtual_time
async def test_the_padding_of_private_packets_is_random() -> None:
    sink = RecordingSink()
    request = request_to(CHAT, stream=True)
    async with pacers([]).open("private", request, sink, lambda _: None) as paced:
        await paced.sink.start(200, [])
        await paced.sink.end(b"data: [DONE]\n\n")

    assert {len(packet) for packet in sink.writes} == {512}
    assert len(set(sink.writes)) == len(sink.writes) == 40
