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


def usual(text: str, tokens: int, **choice: str) -> bytes:
    """A chunk as vLLM writes it, which the fast path reads."""
    usage = {"prompt_tokens": 1, "total_tokens": 1 + tokens, "completion_tokens": tokens}
    content = {"choices": [{"delta": {"content": text}, **choice}], "usage": usage}
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


LAST = usual("z", 2, finish_reason="stop")
LAST_RELAYED = LAST.split(b',"usage"')[0] + b"}\n\n"
ERROR = b'data: {"error":{"message":"boom"}}\n\n'
LOST = WorkerLostError("gone", sent=True)


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

    assert relay.sink.body == relayed


def test_an_unknown_stream_may_stop_between_frames() -> None:
    Relay(EMBEDDINGS).run(b"data: x\n\n")

    with pytest.raises(WorkerLostError):
        Relay(EMBEDDINGS).run(b"data: x\n\nda")


def test_usual_frames_are_tapped_and_all_are_relayed_in_order() -> None:
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
    assert source.tapped == 1
    assert source.taken == 7  # nothing after the end is read
    assert len(relay.gaps) == 5  # "f" was not counted
