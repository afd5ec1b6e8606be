"""Gaps between tokens: counted by token, not by chunk, on both sides of the gateway.

A chunk that brings n tokens after a gap of g seconds is n tokens at g / n each: what a reader
of the text sees. Where the worker does not count tokens chunk by chunk (n > 1, and endpoints
other than chat and completions) the stream's mean is observed once for each token at the end.
"""

from collections.abc import Callable

Observe = Callable[[float, int], None]
"""Takes seconds (a gap, a delay), and how many tokens had them."""


class Side:
    """One side of a stream.

    Attributes:
        first_seconds: When its first text passed; None before.
    """

    __slots__ = ("_gap_seconds", "_gaps", "_last_seconds", "_observe", "first_seconds")

    def __init__(self, observe: Observe) -> None:
        self._observe = observe
        self.first_seconds: float | None = None
        self._last_seconds = 0.0
        self._gaps = 0
        self._gap_seconds = 0.0

    def mark(self, tokens: int | None, now: float) -> None:
        """Text passes: `tokens` new ones, None if the worker does not say."""
        if self.first_seconds is None:
            # Before the first token there is no gap; those that came with it had none.
            self.first_seconds = self._last_seconds = now
            tokens = None if tokens is None else tokens - 1
        if tokens is None:
            self._last_seconds = now
        elif tokens > 0:
            self._count(tokens, now - self._last_seconds)
            self._last_seconds = now

    def finish(self, completion_tokens: int) -> None:
        """The stream ended; observe the mean of those gaps that were not counted one by one."""
        missing = completion_tokens - 1 - self._gaps
        if self.first_seconds is not None and missing > 0:
            self._count(missing, self._last_seconds - self.first_seconds - self._gap_seconds)

    def _count(self, gaps: int, seconds: float) -> None:
        self._observe(seconds / gaps, gaps)
        self._gaps += gaps
        self._gap_seconds += seconds


class TokenClock:
    """Marks when the tokens of one stream pass.

    Args:
        from_worker: Takes the gaps on the worker's side.
        to_client: The same on the client's side.

    Attributes:
        worker: Where text arrives.
        client: Where the same text has been handed to the client.
    """

    __slots__ = ("client", "worker")

    def __init__(self, from_worker: Observe, to_client: Observe) -> None:
        self.worker = Side(from_worker)
        self.client = Side(to_client)

    @property
    def first_token_seconds(self) -> float | None:
        """When the first text was handed to the client; None before."""
        return self.client.first_seconds

    def finish(self, completion_tokens: int | None) -> None:
        """The stream ended, with so many tokens if the worker said it."""
        if completion_tokens is not None:
            self.worker.finish(completion_tokens)
            self.client.finish(completion_tokens)
