"""Smooth mode: bursty output is smoothed, with one timer wheel for all streams.

An even stream is passed on unchanged. Otherwise frames that carry only text are split and played
out evenly. Any other frame first flushes the held text (`EventStream.flush_first`).
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
from gateway.protocol import Part, TextChunk, TextChunks
from gateway.relay.event_stream import EventStream
from gateway.relay.token_clock import Observe
from gateway.relay.writer import Mark

_MAX_TOKENS = 256
"""Most tokens held: a bound on memory, far above any reading speed."""
_MAX_CHARACTERS = 512
"""A longer chunk is not a burst of tokens and is not held."""
_BUSY_STREAMS = 250
"""With more streams pieces get larger, up to double: coarse is better than late."""
_RETRY_SECONDS = 0.02
"""Delay before writing again to a full socket."""
# Roughly how tokenizers split text: words, runs of punctuation, and single characters of scripts
# without spaces. Used if the worker does not count tokens.
_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|'?[^\W\u3040-\ud7af]+|[^\w\s]+")


@dataclass(frozen=True, slots=True)
class SmoothPolicy:
    """Limits of smoothing.

    Attributes:
        max_delay_seconds: Longest delay added to any token.
        piece_seconds: Size of a piece, as the time in which the stream produces it.
    """

    max_delay_seconds: float
    piece_seconds: float


class SmoothWriter:
    """Writes the text of one stream.

    Args:
        out: The client's side.
        chunks: Splits frames.
        wheel: Timers.
        policy: Limits.
        mark: Called with the number of tokens sent.
        added: Called with an added delay in seconds and the number of tokens delayed.
        depth: Called with the number of tokens still held when a piece is sent, and 1.
        clock: Monotonic seconds.
    """

    def __init__(  # its collaborators
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
        self.out = out
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
        self._timer: Timer | None = None
        self._counts = True
        self._undelayed_tokens = 0

    def text(self, frame: bytes, tokens: int | None) -> None:
        """Write a frame at once if the stream is even or the frame indivisible, else hold it."""
        now = self._clock()
        chunk = self._chunks.read(frame) if tokens is None else None
        count = _guess_tokens(chunk) if tokens is None else tokens
        self._rhythm = self._rhythm.after(count, now)
        if self.out.delivered and (self._playout or not self._rhythm.is_even):
            chunk = chunk or self._chunks.read(frame)
            if chunk is not None and self._can_hold(chunk):
                self._counts = tokens is not None
                self._hold(chunk, count, now)
                return
        if frame:  # empty while the reader holds the last one back
            self.other(frame)
        self._mark(tokens)
        self._undelayed_tokens += count

    def other(self, frame: bytes) -> None:
        """Write the held text, then `frame`."""
        self._unset_timer()
        self._write_pieces(self._playout.release_all(), self._clock())
        if frame:
            self.out.write(self._chunks.renumbered(frame))

    def flush(self) -> bool:
        """Send what was written; held text has a timer of its own."""
        return self.out.flush()

    async def drain(self) -> None:
        """Send what was written."""
        await self.out.drain()

    async def end(self, frame: bytes = b"") -> None:
        """Send the held text and the last frame, and end the answer."""
        self.other(frame)
        await self.out.end()

    def hurry(self) -> None:
        """Nothing to do: the end is never delayed."""

    def close(self) -> None:
        """Cancel the timer; held text can still be sent by `end`."""
        self._unset_timer()
        if self._undelayed_tokens:
            self._added(0.0, self._undelayed_tokens)
            self._undelayed_tokens = 0

    def _can_hold(self, chunk: TextChunk) -> bool:
        """Whether there is room, and the held text is of the same kind (not reasoning, say)."""
        playout = self._playout
        if playout.tokens > _MAX_TOKENS or len(chunk.text) > _MAX_CHARACTERS:
            return False
        if (last := playout.last) is None:
            return True
        held, new = last.item.chunk.envelope, chunk.envelope
        return held is new or held.before == new.before

    def _hold(self, chunk: TextChunk, tokens: int, now: float) -> None:
        text, playout = chunk.text, self._playout
        last = playout.last
        was_stuck = last is not None and last.is_open
        if last is not None and (was_stuck or not text.isascii()):  # ASCII would not join it
            last.is_open = goes_on(last.item.text, text)
        if may_go_on(text):
            # Only the last character has to wait for what follows.
            if tokens > 1 and (begin := last_character(text)):
                playout.hold(Part(chunk, text[:begin], False), tokens - 1, now=now)
                text, tokens = text[begin:], 1
            playout.hold(Part(chunk, text, True), tokens, now=now, is_open=True)
        else:
            playout.hold(Part(chunk, text, True), tokens, now=now)
        if self._timer is not None and not was_stuck:
            return  # the timer is set for older text, which is due first
        if playout.wait_seconds(now) == 0.0:
            self._unset_timer()
            self._send_piece()
        elif self._timer is None:
            self._set_timer(now)

    def _send_piece(self) -> None:
        """Send the piece that is due."""
        self._timer = None
        now = self._clock()
        if self.out.flush():
            piece_seconds = self._piece_seconds
            if (waiting := self._wheel.waiting) > _BUSY_STREAMS:
                piece_seconds *= min(2.0, waiting / _BUSY_STREAMS)
            pieces = self._playout.release(self._rhythm, now, piece_seconds=piece_seconds)
            self._write_pieces(pieces, now)
        if self.out.flush():
            self._set_timer(now)
        else:
            self._timer = self._wheel.call_later(_RETRY_SECONDS, self._send_piece)

    def _write_pieces(self, pieces: list[Held[Part]], now: float) -> None:
        if not pieces:
            return
        self.out.write(self._chunks.frames([held.item for held in pieces]))
        tokens = 0
        for held in pieces:
            if held.tokens:
                waited = now - held.arrived_seconds
                self._added(waited if waited > 0.0 else 0.0, held.tokens)
                tokens += held.tokens
        self._depth(self._playout.tokens, 1)
        self._mark(tokens if self._counts else None)

    def _set_timer(self, now: float) -> None:
        if (wait_seconds := self._playout.wait_seconds(now)) is not None:
            self._timer = self._wheel.call_later(wait_seconds, self._send_piece)

    def _unset_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _split(part: Part, tokens: int, of: int) -> tuple[Part, Part] | None:
    chunk, text, is_last = part
    if not (at := cut(text, tokens, of)):
        return None
    return Part(chunk, text[:at], False), Part(chunk, text[at:], is_last)


def _guess_tokens(chunk: TextChunk | None) -> int:
    return 1 if chunk is None else max(1, len(_WORDS.findall(chunk.text)))
