import json
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UpstreamError, WorkerLostError
from gateway.protocol import Endpoint, StreamReader
from gateway.relay.event_stream import EventStream, StreamPolicy
from gateway.relay.streamed import relay_stream
from gateway.relay.token_clock import TokenClock
from gateway.relay.writer import DirectWriter
from tests.unit.gateway.ends import RecordingSink, ScriptedSource
from tests.unit.gateway.requests import CHAT, EMBEDDINGS, request_to
from tests.unit.gateway.virtual_time import run_in_virtual_time

POLICY = StreamPolicy(keep_alive_seconds=15, client_stuck_seconds=40, max_frame_bytes=10_000)
DONE = b"data: [DONE]\n\n"


def chunk(text: str, tokens: int | None = None) -> bytes:
    content: dict[str, object] = {"choices": [{"delta": {"content": text}}]}
    if tokens is not None:
        content["usage"] = {"completion_tokens": tokens}
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


class Relay:
    """One relayed stream and its result."""

    def __init__(self, endpoint: Endpoint = CHAT) -> None:
        self.sink = RecordingSink()
        self.gaps: list[float] = []
        self.reader = StreamReader(request_to(endpoint, stream=True))
        self.clock = TokenClock(
            lambda gap, times: self.gaps.extend([gap] * times), lambda gap, times: None
        )

    def mark(self, tokens: int | None) -> None:
        self.clock.client.mark(tokens, time.monotonic())

    def run(
        self, *steps: bytes | float | Exception, max_frame_bytes: int = 10_000
    ) -> ScriptedSource:
        source = ScriptedSource(steps)

        async def scenario() -> None:
            async with EventStream(self.sink, POLICY, []) as out:
                await relay_stream(
                    source,
                    self.reader,
                    out,
                    DirectWriter(out, self.mark),
                    arrivals=self.clock.worker,
                    max_frame_bytes=max_frame_bytes,
                )

        run_in_virtual_time(scenario())
        return source


def test_nothing_after_the_end_is_read() -> None:
    relay = Relay()

    source = relay.run(chunk("a", 1) + DONE + chunk("late", 2), chunk("later", 3))

    assert relay.sink.body == chunk("a") + DONE
    assert source.taken == 1


@given(st.lists(st.integers(0, 400), max_size=6))
def test_any_split_of_the_stream_gives_the_client_the_same(cuts: list[int]) -> None:
    stream = b": hello\n\n" + chunk("a", 1) + chunk("naïve 🙂", 4) + chunk("c", 5) + DONE
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    relay = Relay()

    relay.run(*(stream[a:b] for a, b in pairwise(borders)))

    assert relay.sink.body == b": hello\n\n" + b"".join(map(chunk, ["a", "naïve 🙂", "c"])) + DONE


@pytest.mark.parametrize(("frames", "first"), [(3, 3), (8, 1)], ids=["short", "long"])
def test_a_read_is_one_write_except_the_first_frame_of_a_long_burst(
    frames: int, first: int
) -> None:
    relay = Relay()

    relay.run(b"".join(chunk("a", count + 1) for count in range(frames)) + DONE)

    assert relay.sink.body == frames * chunk("a") + DONE
    assert relay.sink.writes[0].count(b"data: {") == first
    assert len(relay.gaps) == frames - 1


LAST = (
    b'data: {"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]'
    b',"usage":{"prompt_tokens":1,"total_tokens":3,"completion_tokens":2}}\n\n'
)


def test_the_last_chunk_is_delivered_even_if_the_worker_is_lost_before_done() -> None:
    relay = Relay()

    with pytest.raises(WorkerLostError):
        relay.run(chunk("a", 1), LAST, WorkerLostError("gone", sent=True))

    assert relay.sink.body == chunk("a") + LAST.split(b',"usage"')[0] + b"}\n\n"


def test_a_held_last_chunk_alone_is_dropped_so_that_the_request_can_be_replayed() -> None:
    relay = Relay()

    with pytest.raises(WorkerLostError):
        relay.run(LAST, WorkerLostError("gone", sent=True))

    assert relay.sink.writes == []


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
    assert not relay.sink.ended


def test_an_unknown_stream_may_stop_between_frames() -> None:
    Relay(EMBEDDINGS).run(b"data: x\n\n")

    with pytest.raises(WorkerLostError):
        Relay(EMBEDDINGS).run(b"data: x\n\nda")


def test_frames_before_an_error_are_delivered() -> None:
    relay = Relay()

    with pytest.raises(UpstreamError):
        relay.run(chunk("a", 1), chunk("b", 2) + b'data: {"error":{"message":"boom"}}\n\n' + DONE)

    assert relay.sink.body == chunk("a") + chunk("b")


def usual(text: str, tokens: int) -> bytes:
    """A chunk as vLLM writes it, which the fast path reads."""
    usage = {"prompt_tokens": 1, "total_tokens": 1 + tokens, "completion_tokens": tokens}
    content = {"choices": [{"delta": {"content": text}}], "usage": usage}
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


def test_usual_frames_are_tapped_and_counted() -> None:
    relay = Relay()

    source = relay.run(usual("a", 1), usual("b", 2), 0.5, usual("cd", 4), DONE)

    assert relay.sink.writes == [chunk("a"), chunk("b"), chunk("cd"), DONE]
    assert len(relay.gaps) == 3
    assert source.tapped == 2


def test_other_frames_take_the_slow_path_in_order() -> None:
    relay = Relay()

    half = len(usual("b", 2)) // 2
    source = relay.run(
        usual("a", 1),
        usual("b", 2)[:half],
        usual("b", 2)[half:],
        usual("c", 3) + usual("d", 4),
        b": comment\n\n",
        usual("e", 5),
        DONE,
    )

    assert relay.sink.body == b"".join(map(chunk, "abcd")) + b": comment\n\n" + chunk("e") + DONE
    assert source.tapped == 1


def test_a_read_with_an_uncounted_chunk_is_uncounted() -> None:
    relay = Relay()

    relay.run(chunk("a", 1), chunk("b", 2) + chunk("c"), DONE)

    assert relay.gaps == []
