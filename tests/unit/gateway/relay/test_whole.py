import pytest

from gateway.errors import UpstreamError, WorkerLostError
from gateway.protocol import Answer
from gateway.relay.whole import WholeRelay
from gateway.types import Usage
from tests.unit.gateway.ends import RecordingSink, ScriptedSource
from tests.unit.gateway.requests import CHAT, request_to

KIND = (b"content-type", b"application/json")
OURS = (b"x-ratelimit-limit-tokens", b"5")
BODY = b'{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}'


class Relay:
    """One relayed answer and its result."""

    def __init__(self, *steps: bytes | float | Exception, held_bytes: int = 1000) -> None:
        self.sink = RecordingSink()
        self.source = ScriptedSource(steps, status=201, is_event_stream=False)
        self.relay = WholeRelay(self.sink, [OURS], held_bytes=held_bytes, stuck_seconds=60.0)

    async def run(self) -> "Relay":
        await self.relay.relay(request_to(CHAT), self.source)
        return self


async def test_an_answer_is_sent_with_its_length() -> None:
    done = await Relay(BODY[:10], BODY[10:]).run()

    assert (done.sink.status, done.sink.writes, done.sink.ended) == (201, [BODY], True)
    assert done.sink.headers == [KIND, OURS, (b"content-length", str(len(BODY)).encode())]
    assert done.relay.answer is not None
    assert done.relay.answer.usage == Usage(5, 3)
    assert not done.relay.may_retry


@pytest.mark.parametrize(
    "steps",
    [[b'{"a":', WorkerLostError("gone", sent=True)], [b'{"a":'], []],
    ids=["breaks-off", "half", "empty"],
)
async def test_nothing_of_a_broken_answer_is_sent(steps: list[bytes | Exception]) -> None:
    broken = Relay(*steps)

    with pytest.raises(UpstreamError):
        await broken.run()

    assert not broken.sink.started
    assert broken.relay.may_retry


async def test_a_very_long_answer_is_passed_through_unread() -> None:
    done = await Relay(b"[1,", b"2,", b"3]", held_bytes=4).run()

    assert (done.sink.headers, done.sink.ended) == ([KIND, OURS], True)
    assert done.sink.writes == [b"[1,2,", b"3]"]
    assert done.relay.answer == Answer(b"")


async def test_a_long_answer_that_breaks_off_cannot_be_tried_again() -> None:
    broken = Relay(b"[1,", b"2,", WorkerLostError("gone", sent=True), held_bytes=4)

    with pytest.raises(WorkerLostError):
        await broken.run()

    assert not broken.relay.may_retry
