import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import GatewayError, UpstreamError, WorkerLostError
from gateway.protocol import Endpoint
from gateway.relay.event_stream import EventStream, SlowClientError, StreamPolicy
from gateway.relay.streamed import StreamRelay
from gateway.relay.token_clock import TokenClock
from gateway.relay.whole import WholeRelay
from gateway.relay.writer import DirectWriter
from tests.unit.gateway.ends import RecordingSink, ScriptedSource
from tests.unit.gateway.requests import CHAT, EMBEDDINGS, request_to
from tests.unit.gateway.virtual_time import run_in_virtual_time

POLICY = StreamPolicy(keep_alive_seconds=15, client_stuck_seconds=40)
DONE = b"data: [DONE]\n\n"


def chunk(text: str, tokens: int | None = None) -> bytes:
    content: dict[str, object] = {"choices": [{"delta": {"content": text}}]}
    if tokens is not None:
        content["usage"] = {"completion_tokens": tokens}
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


def usual(text: str, tokens: int, **choice: str) -> bytes:
    """A chunk as vLLM writes it, which the fast path reads."""
    usage = {"prompt_tokens": 1, "total_tokens": 1 + tokens, "completion_tokens": tokens}
    content = {"choices": [{"delta": {"content": text}, **choice}], "usage": usage}
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


LAST = usual("z", 2, finish_reason="stop")
LAST_RELAYED = LAST.split(b',"usage"')[0] + b"}\n\n"
ERROR = b'data: {"error":{"message":"boom"}}\n\n'
LOST = WorkerLostError("gone", sent=True)
ENDED = b"data: error\n\n"


class Relay:
    """One relayed stream and its result."""

    def __init__(self, endpoint: Endpoint = CHAT) -> None:
        self.sink = RecordingSink()
        self.gaps: list[float] = []
        self.request = request_to(endpoint, stream=True)
        self.may_retry = True

    def run(
        self, *steps: bytes | float | Exception, max_frame_bytes: int = 10_000
    ) -> ScriptedSource:
        source = ScriptedSource(steps)
        clock = TokenClock(
            lambda gap, times: self.gaps.extend([gap] * times), lambda gap, times: None
        )

        async def scenario() -> None:
            async with EventStream(self.sink, POLICY, []) as out:
                writer = DirectWriter(out, clock.mark_sent)
                whole = WholeRelay(self.sink, [], held_bytes=100, stuck_seconds=40)
                relay = StreamRelay(
                    self.request, writer, clock, whole=whole, max_frame_bytes=max_frame_bytes
                )
                try:
                    await relay.relay(self.request, source)
                except GatewayError:
                    self.may_retry = relay.may_retry
                    if out.delivered and (held := relay.take_held()):
                        writer.other(held)
                    await writer.end(ENDED)
                    raise

        run_in_virtual_time(scenario())
        return source


@given(st.lists(st.integers(0, 400), max_size=6))
def test_any_split_of_the_stream_gives_the_client_the_same(cuts: list[int]) -> None:
    stream = b": hello\n\n" + chunk("a", 1) + chunk("naïve 🙂", 4) + chunk("c", 5) + DONE
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    relay = Relay()

    relay.run(*(stream[a:b] for a, b in pairwise(borders)))

    assert relay.sink.body == b": hello\n\n" + b"".join(map(chunk, ["a", "naïve 🙂", "c"])) + DONE


def test_the_frames_of_a_read_are_one_write_and_one_arrival() -> None:
    relay = Relay()

    relay.run(chunk("a", 1), b"".join(chunk("a", count) for count in (2, 3, 4)), DONE)

    assert relay.sink.writes == [chunk("a"), 3 * chunk("a"), DONE]
    assert len(relay.gaps) == 3
    assert len(set(relay.gaps)) == 1


@pytest.mark.parametrize(
    "steps",
    [[], [chunk("a", 1)], [chunk("a", 1), b"data: [DONE]\n"]],
    ids=["nothing", "no-end", "incomplete-end"],
)
def test_a_stream_without_end_is_incomplete(steps: list[bytes]) -> None:
    relay = Relay()

    with pytest.raises(WorkerLostError) as caught:
        relay.run(*steps)

    assert caught.value.sent
    assert relay.may_retry is (not steps)


@pytest.mark.parametrize(
    ("steps", "relayed"),
    [
        ([chunk("a", 1), chunk("b", 2) + ERROR + DONE], chunk("a") + chunk("b")),
        ([chunk("a", 1), LAST, LOST], chunk("a") + LAST_RELAYED),
        ([LAST, LOST], b""),  # nothing was delivered: the request can be replayed
    ],
    ids=["error", "held-chunk", "only-a-held-chunk"],
)
def test_everything_before_an_error_is_delivered(
    steps: list[bytes | Exception], relayed: bytes
) -> None:
    relay = Relay()

    with pytest.raises(UpstreamError):
        relay.run(*steps)

    assert relay.sink.body == relayed + ENDED
    assert relay.may_retry is (not relayed)


def test_an_unknown_stream_may_stop_between_frames() -> None:
    Relay(EMBEDDINGS).run(b"data: x\n\n")

    with pytest.raises(WorkerLostError):
        Relay(EMBEDDINGS).run(b"data: x\n\nda")


def test_only_the_first_frame_and_the_end_wake_the_task() -> None:
    relay = Relay()

    half = len(usual("b", 2)) // 2
    source = relay.run(
        usual("a", 1),
        usual("b", 2)[:half],
        usual("b", 2)[half:],
        usual("c", 3) + usual("d", 4),
        b": comment\n\n",
        usual("ee", 6),
        chunk("f") + DONE + chunk("late", 9),
        chunk("later", 10),
    )

    assert relay.sink.body == b"".join(map(chunk, "abcd")) + b": comment\n\n" + b"".join(
        [chunk("ee"), chunk("f"), DONE]
    )
    assert source.pauses == 2
    assert source.taken == 7  # nothing after the end is read
    assert len(relay.gaps) == 5  # "f" was not counted


def test_a_client_that_reads_nothing_pauses_the_worker() -> None:
    relay = Relay()
    relay.sink = RecordingSink(stuck_after=2)

    with pytest.raises(SlowClientError):
        relay.run(*(usual("x", number) for number in range(1, 100)))

    assert relay.sink.body == chunk("x") + chunk("x")
