"""Gaps between tokens, counted by token and not by chunk, on both sides of the gateway.

A chunk of n tokens after a gap of g seconds counts as n gaps of g / n. If the worker does not count
tokens by chunk (n > 1, and endpoints other than chat and completions), the stream's mean gap is
observed for each token at the end.
"""

import time
from collections.abc import Callable

Observe = Callable[[float, int], None]
"""Called with seconds (a gap or a delay) and the number of tokens that had them."""


class Side:
    """One side of a stream.

    Attributes:
        first_seconds: Time of the first text; None before.
        on_first: Called with that time.
    """

    __slots__ = ("_gap_seconds", "_gaps", "_last_seconds", "_observe", "first_seconds", "on_first")

    def __init__(self, observe: Observe) -> None:
        self._observe = observe
        self.first_seconds: float | None = None
        self.on_first: Callable[[float], None] | None = None
        self._last_seconds = 0.0
        self._gaps = 0
        self._gap_seconds = 0.0

    def mark(self, tokens: int | None, now: float) -> None:
        """Record text with `tokens` new tokens, or None if the worker does not count."""
        if self.first_seconds is None:
            # The first token has no gap, and tokens in the same chunk have none either.
            self.first_seconds = self._last_seconds = now
            if self.on_first is not None:
                self.on_first(now)
            tokens = None if tokens is None else tokens - 1
        if tokens is None:
            self._last_seconds = now
        elif tokens > 0:
            self._count(tokens, now - self._last_seconds)
            self._last_seconds = now

    def finish(self, completion_tokens: int) -> None:
        """Record the end of the stream: observe the mean gap for tokens not counted yet."""
        missing = completion_tokens - 1 - self._gaps
        if self.first_seconds is not None and missing > 0:
            self._count(missing, self._last_seconds - self.first_seconds - self._gap_seconds)

    def _count(self, gaps: int, seconds: float) -> None:
        self._observe(seconds / gaps, gaps)
        self._gaps += gaps
        self._gap_seconds += seconds


class TokenClock:
    """Times the tokens of one stream.

    Args:
        from_worker: Observes the gaps on the worker's side.
        to_client: Observes the gaps on the client's side.

    Attributes:
        worker: Text as it arrives.
        client: The same text as it is sent to the client.
    """

    __slots__ = ("client", "worker")

    def __init__(self, from_worker: Observe, to_client: Observe) -> None:
        self.worker = Side(from_worker)
        self.client = Side(to_client)

    @property
    def first_token_seconds(self) -> float | None:
        """When the first text was sent to the client; None before."""
        return self.client.first_seconds

    def mark_sent(self, tokens: int | None) -> None:
        """Record that text was sent to the client just now; as `Side.mark`."""
        self.client.mark(tokens, time.monotonic())

    def finish(self, completion_tokens: int | None) -> None:
        """Record the end of the stream, with its token count if the worker reported one."""
        if completion_tokens is not None:
            self.worker.finish(completion_tokens)
            self.client.finish(completion_tokens)
