"""A smoothed stream of a scripted worker, in virtual time."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.errors import GatewayError, UpstreamError
from gateway.pacing import Wheel
from gateway.protocol import Endpoint, FrameSplitter, TextChunks, error_event
from gateway.protocol.sse import data_of
from gateway.relay.event_stream import EventStream, StreamPolicy
from gateway.relay.smooth import SmoothPolicy, SmoothWriter
from gateway.relay.streamed import StreamRelay
from gateway.relay.token_clock import TokenClock
from gateway.relay.whole import WholeRelay
from tests.unit.gateway.ends import RecordingSink, ScriptedSource
from tests.unit.gateway.requests import CHAT, request_to
from tests.unit.gateway.virtual_time import now, run_in_virtual_time

POLICY = StreamPolicy(keep_alive_seconds=15, client_stuck_seconds=40)
BOUND_SECONDS = 0.12
DONE = b"data: [DONE]\n\n"
WORDS = (" the", " naïve", " 你好", " 👩‍🔬", ".", "\n", " e\u0301", "שלום")

Step = bytes | float | Exception


def chunk(text: str, running: int, **choice: Any) -> bytes:
    """A chat chunk as vLLM writes it, with the running count that we ask for."""
    content = {"index": 0, "delta": {"content": text}, "finish_reason": None} | choice
    usage = {"prompt_tokens": 1, "total_tokens": 1 + running, "completion_tokens": running}
    return _frame({"id": "c", "choices": [content], "usage": usage})


def _frame(body: dict[str, Any]) -> bytes:
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return b"data: " + text.encode() + b"\n\n"


def bursts(*sizes: int, gap: float = 0.08, begin: int = 1) -> list[Step]:
    """A first token, then bursts of the given sizes, one word for each token."""
    steps: list[Step] = [chunk("Once", begin)]
    for size in sizes:
        words = "".join(WORDS[(begin + i) % len(WORDS)] for i in range(size))
        begin += size
        steps += [gap, chunk(words, begin)]
    return steps


@dataclass(frozen=True)
class Write:
    """One write."""

    seconds: float
    data: bytes


class TimedSink(RecordingSink):
    """A client that records times, and whose socket is full at times."""

    def __init__(self, *, full: Sequence[bool] = ()) -> None:
        super().__init__()
        self.timed: list[Write] = []
        self._full = list(full)

    async def write(self, data: bytes) -> None:
        await super().write(data)
        self.timed.append(Write(now(), data))

    def write_now(self, data: bytes) -> bool:
        if self._full and self._full.pop(0):
            return False
        self.timed.append(Write(now(), data))
        return super().write_now(data)

    async def end(self, data: bytes = b"") -> None:
        await super().end(data)
        self.timed.append(Write(now(), data))


class Smoothed:
    """One smoothed stream and its result.

    Attributes:
        added: Delay of each token, as reported to the metrics.
        marks: Tokens as marked on the client's side.
    """

    def __init__(
        self, endpoint: Endpoint = CHAT, *, full: Sequence[bool] = (), **body: Any
    ) -> None:
        self.sink = TimedSink(full=full)
        self.request = request_to(endpoint, stream=True, **body)
        self.added: list[float] = []
        self.marks: list[int | None] = []
        self.depths: list[float] = []
        self.error: GatewayError | None = None
        self.source = ScriptedSource(())

    def run(
        self, *steps: Step, cancel_after: float | None = None, other_streams: int = 0
    ) -> "Smoothed":
        run_in_virtual_time(self._scenario(steps, cancel_after, other_streams))
        return self

    async def _scenario(
        self, steps: Sequence[Step], cancel_after: float | None, other_streams: int
    ) -> None:
        self.source = ScriptedSource(steps)
        wheel = Wheel(asyncio.get_running_loop())
        for _ in range(other_streams):
            wheel.call_later(1000.0, lambda: None)
        loop = asyncio.get_running_loop()
        clock = TokenClock(lambda *_: None, lambda *_: None)
        async with EventStream(self.sink, POLICY, []) as out:
            writer = SmoothWriter(
                out,
                TextChunks(self.request.endpoint.dialect),
                wheel,
                SmoothPolicy(BOUND_SECONDS, 0.03),
                mark=self.marks.append,
                added=lambda seconds, tokens: self.added.extend([seconds] * tokens),
                depth=lambda tokens, _: self.depths.append(tokens),
                clock=loop.time,
            )
            whole = WholeRelay(self.sink, [], held_bytes=1, stuck_seconds=1.0)
            relay = StreamRelay(self.request, writer, clock, whole=whole, max_frame_bytes=10_000)
            task = asyncio.create_task(relay.relay(self.request, self.source))
            try:
                if cancel_after is None:
                    await task
                else:
                    await asyncio.wait({task}, timeout=cancel_after)
                    task.cancel()
                    await asyncio.wait({task})
                    if not self.sink.ended:
                        raise UpstreamError("drained")
            except GatewayError as error:
                self.error = error
                number = relay.reader.frames_read
                dialect = self.request.endpoint.dialect
                await writer.end(error_event(error, dialect, sequence_number=number))
            finally:
                writer.close()

    @property
    def events(self) -> list[dict[str, Any]]:
        frames = FrameSplitter(10_000).feed(self.sink.body)
        return [json.loads(data) for f in frames if (data := data_of(f)) and data != b"[DONE]"]

    @property
    def text(self) -> str:
        choices = (event["choices"][0] for event in self.events if event.get("choices"))
        return "".join(choice["delta"].get("content") or "" for choice in choices)


def words_of(steps: Sequence[Step]) -> str:
    """The text that the worker sends in `steps`."""
    frames = [step for step in steps if isinstance(step, bytes)]
    events = [
        json.loads(data_of(f)) for f in FrameSplitter(10_000).feed(b"".join(frames)[: -len(DONE)])
    ]
    return "".join(event["choices"][0]["delta"].get("content") or "" for event in events)
