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
from gateway.types import Usage
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
    """One relayed stream and what is left of it."""

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


def test_frames_arrive_without_what_only_we_asked_for() -> None:
    relay = Relay()

    totals = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\n'

    relay.run(chunk("a", 1), chunk("b", 2), totals, DONE)

    assert relay.sink.writes == [chunk("a"), chunk("b"), DONE]
    assert relay.reader.usage == Usage(5, 2)


def test_what_follows_the_end_is_not_read() -> None:
    relay = Relay()

    source = relay.run(chunk("a", 1) + DONE + chunk("late", 2), chunk("later", 3))

    assert relay.sink.body == chunk("a") + DONE
    assert source.taken == 1


@given(st.lists(st.integers(0, 400), max_size=6))
def test_however_the_stream_is_cut_the_client_gets_the_same(places: list[int]) -> None:
    stream = b": hello\n\n" + chunk("a", 1) + chunk("naïve 🙂", 4) + chunk("c", 5) + DONE
    borders = [0, *sorted(min(place, len(stream)) for place in places), len(stream)]
    relay = Relay()

    relay.run(*(stream[a:b] for a, b in pairwise(borders)))

    assert relay.sink.body == b": hello\n\n" + b"".join(map(chunk, ["a", "naïve 🙂", "c"])) + DONE


def test_frames_of_one_read_leave_as_one_write() -> None:
    relay = Relay()

    relay.run(chunk("a", 1) + chunk("b", 2) + chunk("c", 3) + DONE)

    assert relay.sink.writes == [chunk("a") + chunk("b") + chunk("c") + DONE]


def test_first_frame_of_a_long_burst_does_not_wait_for_the_others() -> None:
    relay = Relay()

    relay.run(b"".join(chunk("a", count) for count in range(1, 9)) + DONE)

    assert relay.sink.writes == [chunk("a"), 7 * chunk("a") + DONE]


LAST = (
    b'data: {"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]'
    b',"usage":{"prompt_tokens":1,"total_tokens":3,"completion_tokens":2}}\n\n'
)


def test_last_chunk_is_delivered_although_the_worker_is_lost_before_it_says_done() -> None:
    relay = Relay()

    with pytest.raises(WorkerLostError):
        relay.run(chunk("a", 1), LAST, WorkerLostError("gone", sent=True))

    assert relay.sink.body == chunk("a") + LAST.split(b',"usage"')[0] + b"}\n\n"


def test_last_chunk_that_is_all_there_is_leaves_the_request_to_be_replayed() -> None:
    relay = Relay()

    with pytest.raises(WorkerLostError):
        relay.run(LAST, WorkerLostError("gone", sent=True))

    assert relay.sink.writes == []


def test_an_end_that_comes_first_ends_at_once() -> None:
    relay = Relay()

    relay.run(DONE + chunk("late"))

    assert relay.sink.body == DONE


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [chunk("a", 1)],
        [chunk("a", 1), b"data: [DO"],
        [chunk("a", 1), b"data: [DONE]\n"],
    ],
    ids=["nothing", "no-end", "half-an-end", "end-without-blank-line"],
)
def test_a_stream_that_just_stops_was_cut(steps: list[bytes]) -> None:
    relay = Relay()

    with pytest.raises(WorkerLostError) as caught:
        relay.run(*steps)

    assert caught.value.sent
    assert not relay.sink.ended


def test_a_stream_we_do_not_know_may_stop_between_frames_only() -> None:
    Relay(EMBEDDINGS).run(b"data: x\n\n")

    with pytest.raises(WorkerLostError):
        Relay(EMBEDDINGS).run(b"data: x\n\nda")


def test_what_came_before_an_error_still_belongs_to_the_client() -> None:
    relay = Relay()

    with pytest.raises(UpstreamError):
        relay.run(chunk("a", 1), chunk("b", 2) + b'data: {"error":{"message":"boom"}}\n\n' + DONE)

    assert relay.sink.body == chunk("a") + chunk("b")


def test_an_error_that_comes_first_leaves_the_answer_unbegun() -> None:
    relay = Relay()

    with pytest.raises(UpstreamError):
        relay.run(b'data: {"error":{"message":"boom"}}\n\n')

    assert not relay.sink.started


def test_a_failure_of_the_connection_travels_on() -> None:
    lost = WorkerLostError("gone", sent=True)

    with pytest.raises(WorkerLostError) as caught:
        Relay().run(chunk("a", 1), lost)

    assert caught.value is lost


def test_an_event_over_the_bound_ends_the_stream() -> None:
    with pytest.raises(UpstreamError, match="too large"):
        Relay().run(b"data: " + b"x" * 200, max_frame_bytes=100)


def test_tokens_are_timed_by_their_count() -> None:
    relay = Relay()

    relay.run(chunk("a", 1), chunk("bcd", 4), DONE)

    assert len(relay.gaps) == 3
    assert relay.clock.first_token_seconds is not None


def test_a_chunk_that_was_not_counted_makes_its_whole_read_uncounted() -> None:
    relay = Relay()

    relay.run(chunk("a", 1), chunk("b", 2) + chunk("c"), DONE)

    assert relay.gaps == []


def usual(text: str, tokens: int) -> bytes:
    """A chunk in vLLM's own words, which may go the short way."""
    usage = {"prompt_tokens": 1, "total_tokens": 1 + tokens, "completion_tokens": tokens}
    content = {"choices": [{"delta": {"content": text}}], "usage": usage}
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


def test_frames_that_need_no_waiting_wake_nobody_and_are_counted_the_same() -> None:
    relay = Relay()

    source = relay.run(usual("a", 1), usual("b", 2), 0.5, usual("cd", 4), DONE)

    assert relay.sink.writes == [chunk("a"), chunk("b"), chunk("cd"), DONE]
    assert len(relay.gaps) == 3
    assert source.tapped == 2


def test_what_has_to_wait_goes_the_long_way_in_order() -> None:
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
