import asyncio
from typing import Any

import pytest

from gateway.pacing import Wheel
from gateway.protocol import Endpoint
from gateway.relay.event_stream import StreamPolicy
from gateway.relay.pacers import Pacers, PacingMeters
from gateway.relay.private import PrivatePolicy
from gateway.relay.smooth import SmoothPolicy, SmoothWriter
from gateway.relay.writer import DirectWriter
from gateway.types import PacingMode
from tests.unit.gateway.ends import RecordingSink
from tests.unit.gateway.requests import CHAT, COMPLETIONS, EMBEDDINGS, request_to
from tests.unit.gateway.virtual_time import in_virtual_time

STREAM = StreamPolicy(keep_alive_seconds=15, client_stuck_seconds=40)


def pacers(streams: list[str]) -> Pacers:
    return Pacers(
        Wheel(asyncio.get_running_loop()),
        stream=STREAM,
        smooth=SmoothPolicy(0.12, 0.03),
        private=PrivatePolicy(0.05, 512, 0.5, 2.0),
        meters=PacingMeters(streams.append, *[lambda *_: None] * 3),
    )


@pytest.mark.parametrize(
    ("mode", "endpoint", "body", "used", "writer", "is_private"),
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
async def test_each_mode_has_its_writer(
    mode: PacingMode,
    endpoint: Endpoint,
    body: dict[str, Any],
    used: str,
    writer: type[object],
    is_private: bool,
) -> None:
    streams: list[str] = []
    sink = RecordingSink()
    request = request_to(endpoint, stream=True, **body)
    async with pacers(streams).open(mode, request, sink, [], mark=lambda _: None) as opened:
        assert type(opened) is writer
        opened.other(b"data: x\n\n")
        await opened.end(b"data: [DONE]\n\n")
    assert streams == [used]
    assert ({len(data) for data in sink.writes} == {512}) is is_private
    assert sink.ended


@in_virtual_time
async def test_the_padding_of_private_packets_is_random() -> None:
    sink = RecordingSink()
    request = request_to(CHAT, stream=True)
    async with pacers([]).open("private", request, sink, [], mark=lambda _: None) as opened:
        await opened.end(b"data: [DONE]\n\n")

    assert {len(packet) for packet in sink.writes} == {512}
    assert len(set(sink.writes)) == len(sink.writes) == 40
