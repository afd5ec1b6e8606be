"""Gaps between tokens: counted by token, not by chunk, on both sides of the gateway.

A chunk that brings n tokens after a gap of g seconds is n tokens at g / n each: what a reader
of the text sees. Where the worker does not count tokens chunk by chunk (n > 1, and endpoints
other than chat and completions) the stream's mean is observed once for each token at the end.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

Observe = Callable[[float], None]


@dataclass(slots=True)
class _Side:
    observe: Observe
    first_seconds: float | None = None
    last_seconds: float = 0.0
    gaps: int = 0
    gap_seconds: float = 0.0

    def mark(self, tokens: int | None, now: float) -> None:
        if self.first_seconds is None:
            # Before the first token there is no gap; those that came with it had none.
            self.first_seconds = self.last_seconds = now
            tokens = None if tokens is None else tokens - 1
        if tokens is None:
            self.last_seconds = now
        elif tokens > 0:
            self._observe(tokens, now - self.last_seconds)
            self.last_seconds = now

    def finish(self, completion_tokens: int) -> None:
        missing = completion_tokens - 1 - self.gaps
        if self.first_seconds is not None and missing > 0:
            self._observe(missing, self.last_seconds - self.first_seconds - self.gap_seconds)

    def _observe(self, gaps: int, seconds: float) -> None:
        for _ in range(gaps):
            self.observe(seconds / gaps)
        self.gaps += gaps
        self.gap_seconds += seconds


@dataclass(slots=True)
class TokenClock:
    """Marks when tokens of one stream arrived from the worker and left to the client.

    Args:
        from_worker: Takes each gap in seconds on the worker's side.
        to_client: The same on the client's side.
    """

    from_worker: Observe
    to_client: Observe
    _worker: _Side = field(init=False)
    _client: _Side = field(init=False)

    def __post_init__(self) -> None:
        self._worker = _Side(self.from_worker)
        self._client = _Side(self.to_client)

    @property
    def first_token_seconds(self) -> float | None:
        """When the first text was handed to the client; None before."""
        return self._client.first_seconds

    def arrived(self, tokens: int | None, now: float) -> None:
        """Text came from the worker: `tokens` new ones, None if it does not say."""
        self._worker.mark(tokens, now)

    def left(self, tokens: int | None, now: float) -> None:
        """The same text was handed to the client."""
        self._client.mark(tokens, now)

    def finish(self, completion_tokens: int | None) -> None:
        """The stream ended; observe the mean of those gaps that were not counted one by one."""
        if completion_tokens is not None:
            self._worker.finish(completion_tokens)
            self._client.finish(completion_tokens)
