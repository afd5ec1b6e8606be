import pytest

from gateway.errors import UpstreamError, WorkerLostError
from gateway.protocol import Answer
from gateway.relay.whole import relay_whole
from gateway.types import Usage
from tests.unit.gateway.ends import RecordingSink, ScriptedSource
from tests.unit.gateway.requests import CHAT, request_to

KIND = (b"content-type", b"application/json")
BODY = b'{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}'


async def relayed(
    sink: RecordingSink, *steps: bytes | float | Exception, held_bytes: int = 1000
) -> Answer:
    return await relay_whole(
        ScriptedSource(steps),
        request_to(CHAT),
        sink,
        status=201,
        headers=[KIND],
        held_bytes=held_bytes,
        stuck_seconds=60.0,
    )


async def test_an_answer_is_sent_with_its_length() -> None:
    sink = RecordingSink()

    answer = await relayed(sink, BODY[:10], BODY[10:])

    assert (sink.status, sink.writes, sink.ended) == (201, [BODY], True)
    assert sink.headers == [KIND, (b"content-length", str(len(BODY)).encode())]
    assert answer.usage == Usage(5, 3)


@pytest.mark.parametrize(
    "steps",
    [[b'{"a":', WorkerLostError("gone", sent=True)], [b'{"a":'], []],
    ids=["breaks-off", "half", "empty"],
)
async def test_nothing_of_a_broken_answer_is_sent(steps: list[bytes | Exception]) -> None:
    sink = RecordingSink()

    with pytest.raises(UpstreamError):
        await relayed(sink, *steps)

    assert not sink.started


async def test_a_very_long_answer_is_passed_through_unread() -> None:
    sink = RecordingSink()

    answer = await relayed(sink, b"[1,", b"2,", b"3]", held_bytes=4)

    assert (sink.headers, sink.writes, sink.ended) == ([KIND], [b"[1,2,", b"3]"], True)
    assert answer == Answer(b"")
