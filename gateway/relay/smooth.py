"""Smooth mode: text that comes in bursts leaves evenly, with one timer for all streams.

A stream that comes evenly is passed on as it is. Of any other, frames with nothing but text are
taken apart and played out; whatever else comes flushes them first (`EventStream.write`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from gateway.pacing import (
    Held,
    Playout,
    Rhythm,
    Timer,
    Wheel,
    cut,
    goes_on,
    last_character,
    may_go_on,
)
from gateway.protocol import FrameSplitter, Part, TextChunk, TextChunks
from gateway.relay.event_stream import EventStream
from gateway.relay.token_clock import Observe
from gateway.relay.writer import Mark

_MOST_TOKENS = 256
"""More is not held: nobody reads 2,000 tokens a second, and a flood must not fill the memory."""
_MOST_CHARACTERS = 512
"""A chunk of more is no burst of tokens."""
_CROWD = 250
"""With more streams at once pieces get larger, up to double: coarser is better than late."""
_RETRY_SECONDS = 0.02
"""A client's socket that was full is tried again so soon."""
# As tokenizers cut before they look up: a word with its blank, a run of signs; of scripts that
# write no blanks each character. For streams whose worker does not count.
_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|'?[^\W\u3040-\ud7af]+|[^\w\s]+")


@dataclass(frozen=True, slots=True)
class SmoothPolicy:
    """How text is played out.

    Attributes:
        max_delay_seconds: The most that is added to any token.
        piece_seconds: How much text leaves at once, in seconds of reading it.
    """

    max_delay_seconds: float
    piece_seconds: float


class SmoothWriter:
    """The way out of one stream; also what its `EventStream` keeps back.

    Args:
        out: The client's side.
        chunks: Takes its frames apart.
        wheel: Where pieces wait for their time.
        policy: Bounds.
        mark: Told of each token that leaves.
        added: Takes the delay of each token, in seconds.
        depth: Takes the tokens that are still held as a piece leaves.
        clock: Monotonic seconds.
    """

    is_paced = True

    def __init__(  # what it joins, each used once
        self,
        out: EventStream,
        chunks: TextChunks,
        wheel: Wheel,
        policy: SmoothPolicy,
        *,
        mark: Mark,
        added: Observe,
        depth: Observe,
        clock: Callable[[], float],
    ) -> None:
        self._out = out
        self._chunks = chunks
        self._wheel = wheel
        self._mark = mark
        self._added = added
        self._depth = depth
        self._clock = clock
        self._piece_seconds = policy.piece_seconds
        self._playout: Playout[Part] = Playout(
            max_delay_seconds=policy.max_delay_seconds, split=_split, timers=wheel
        )
        self._rhythm = Rhythm()
        self._entry: Timer | None = None
        self._leaving: list[Held[Part]] = []
        self._ready = b""
        self._counts = True
        self._undelayed_tokens = 0
        out.keep_back(self)

    def offer(self, frame: bytes, tokens: int | None) -> bool:
        """Send a frame at once if its stream is even or it has to stay whole, else hold its text.

        Refused is what would have to wait, or flush what is held.
        """
        if self._ready or not self._out.delivered:
            return False
        now, playout = self._clock(), self._playout
        is_read = tokens is None or not self._rhythm.is_even or bool(playout)
        chunk = self._chunks.read(frame) if is_read else None
        count = _guess_tokens(chunk) if tokens is None else tokens
        rhythm = self._rhythm.after(count, now)
        if not is_read and not rhythm.is_even:
            chunk = self._chunks.read(frame)
        if (chunk is None or rhythm.is_even) and not playout:
            if not self._out.write_now(self._chunks.renumbered(frame)):
                return False
            self._rhythm = rhythm
            self._mark(tokens)
            self._undelayed_tokens += count
        elif chunk is None or not self._can_hold(chunk):
            return False
        else:
            self._rhythm, self._counts = rhythm, tokens is not None
            self._hold(chunk, count, now)
        return True

    async def write(self, frames: bytes, tokens: int | None) -> None:
        """Send what is held, and frames behind it."""
        count = 1 if tokens is None else tokens
        self._rhythm = self._rhythm.after(count, self._clock())
        if frames:
            await self._out.write(frames)
        self._mark(tokens)
        self._undelayed_tokens += count

    async def end(self, frames: bytes, tokens: int | None) -> None:
        """Send what is held and the last frames, and end the answer."""
        await self._out.end(frames)
        if tokens != 0:
            self._mark(tokens)
            self._undelayed_tokens += tokens or 1

    def lead(self, frames: bytes) -> bytes:
        """Give everything that is held, and `frames` behind it."""
        self._unset_timer()
        self._make_ready(self._playout.release_all())
        held, self._ready = self._ready, b""
        if self._chunks.more_events:
            whole = FrameSplitter(len(frames)).feed(frames)
            frames = b"".join(map(self._chunks.renumbered, whole))
        return held + frames

    def left(self) -> None:
        """Count what has left."""
        leaving, self._leaving = self._leaving, []
        if leaving:
            now = self._clock()
            tokens = 0
            for held in leaving:
                if held.tokens:
                    waited = now - held.arrived_seconds
                    self._added(waited if waited > 0.0 else 0.0, held.tokens)
                    tokens += held.tokens
            self._depth(self._playout.tokens, 1)
            self._mark(tokens if self._counts else None)

    def close(self) -> None:
        """Let go of the timer; what is held can still be taken with `lead`."""
        self._unset_timer()
        if self._undelayed_tokens:
            self._added(0.0, self._undelayed_tokens)
            self._undelayed_tokens = 0

    def _can_hold(self, chunk: TextChunk) -> bool:
        """Whether it is no flood, and more of what is held: not reasoning after content."""
        playout = self._playout
        if playout.tokens > _MOST_TOKENS or len(chunk.text) > _MOST_CHARACTERS:
            return False
        if (last := playout.last) is None:
            return True
        held, new = last.item.chunk.envelope, chunk.envelope
        return held is new or held.before == new.before

    def _hold(self, chunk: TextChunk, tokens: int, now: float) -> None:
        text, playout = chunk.text, self._playout
        last = playout.last
        was_stuck = last is not None and last.is_open
        if last is not None and (was_stuck or not text.isascii()):  # only then it can go on
            last.is_open = goes_on(last.item.text, text)
        if may_go_on(text):
            # Its last character waits for what follows; the rest need not.
            if tokens > 1 and (begin := last_character(text)):
                playout.hold(Part(chunk, text[:begin], False), tokens - 1, now=now)
                text, tokens = text[begin:], 1
            playout.hold(Part(chunk, text, True), tokens, now=now, is_open=True)
        else:
            playout.hold(Part(chunk, text, True), tokens, now=now)
        if self._entry is not None and not was_stuck:
            return  # what was held before this leaves no later than this can
        if playout.wait_seconds(now) == 0.0:
            self._unset_timer()
            self._turn()
        elif self._entry is None:
            self._set_timer(now)

    def _turn(self) -> None:
        """Send the piece that is due."""
        self._entry = None
        now = self._clock()
        if not self._ready:
            piece_seconds = self._piece_seconds
            if (waiting := self._wheel.waiting) > _CROWD:
                piece_seconds *= min(2.0, waiting / _CROWD)
            self._make_ready(self._playout.release(self._rhythm, now, piece_seconds=piece_seconds))
        if self._ready:
            if not self._out.write_now(self._ready):
                self._entry = self._wheel.call_later(_RETRY_SECONDS, self._turn)
                return
            self._ready = b""
            self.left()
        self._set_timer(now)

    def _make_ready(self, pieces: list[Held[Part]]) -> None:
        self._leaving += pieces
        self._ready += self._chunks.frames([held.item for held in pieces])

    def _set_timer(self, now: float) -> None:
        if (wait_seconds := self._playout.wait_seconds(now)) is not None:
            self._entry = self._wheel.call_later(wait_seconds, self._turn)

    def _unset_timer(self) -> None:
        if self._entry is not None:
            self._entry.cancel()
            self._entry = None


def _split(part: Part, tokens: int, of: int) -> tuple[Part, Part] | None:
    chunk, text, is_last = part
    if not (at := cut(text, tokens, of)):
        return None
    return Part(chunk, text[:at], False), Part(chunk, text[at:], is_last)


def _guess_tokens(chunk: TextChunk | None) -> int:
    return 1 if chunk is None else max(1, len(_WORDS.findall(chunk.text)))
