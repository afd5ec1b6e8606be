"""Whether any release of a stream has a median and a p99 of gaps within given limits. Pure.

A release is a sequence of pieces of whole tokens. The first token leaves when it arrives. Every
other one leaves after it arrives and within the bound, and the last one within the bound on the
end. As in `gaps_of`, text that leaves within a millisecond is one piece, and a piece of n tokens
after g ms is n gaps of g/n.

The proof. In a release whose p99 is at most `slow` and whose median is at least `fast`, no more
than one token in a hundred has a gap above `slow`, and less than half of them have one below
`fast`. For each token, and each count of such slow and fast tokens before it, an interval contains
every time at which a piece can end with that token. If the last token has no interval, there is no
such release. An interval may contain times that no release has, so only a "no" is proven.

Pieces need not be tried from every token to every other. Where one begins amid a chunk, the rest of
that chunk can leave token by token instead, evenly over the same time: it has come by then, none of
it leaves later, and no gap per token changes. So single tokens are enough, and pieces that begin
with a chunk.

Clocks are whole microseconds, rounded in favour of the release.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.pacing.figures import SAME_MOMENT_NS, Played, Values
from bench.pacing.plan import BOUND_MS, END_MS

Clocks = NDArray[np.int32]
Claims = NDArray[np.bool_]
Counts = slice | tuple[slice, ...]

ROUNDED = 1e-9
"""More than the last digits of a quotient."""
_NEVER = 2**30
_LONGEST_US = 2**28  # added to `_NEVER` it still is a 32-bit number


@dataclass(frozen=True, slots=True)
class Stream:
    """When the pieces of a stream can leave.

    Attributes:
        least_us: That end with a token; shape (tokens,), never falling.
        most_us: That begin with it; same shape, never falling.
        is_first: Whether a token begins a chunk; same shape.
        starts: So many tokens can be in the first piece, which has no gap; at least 1.
    """

    least_us: list[int]
    most_us: list[int]
    is_first: list[bool]
    starts: int

    @property
    def least_gaps(self) -> int:
        """So many tokens have a gap, at the fewest."""
        return len(self.least_us) - self.starts


def stream_of(played: Played) -> Stream:
    """What the bounds leave of the worker's times.

    Args:
        played: Of less than four minutes.
    """
    chunks = played.pattern.chunk_of_token
    came_ns = (played.sent_ns - played.sent_ns[0])[chunks]
    # A piece is identified by its beginning; its last token may arrive in the same millisecond.
    least_us = np.maximum(0, (came_ns - SAME_MOMENT_NS) // 1_000)
    most_us = -(-came_ns // 1_000) + BOUND_MS * 1_000
    most_us[-1] += (END_MS - BOUND_MS) * 1_000
    most_us = np.minimum.accumulate(most_us[::-1])[::-1]  # nothing overtakes
    assert most_us[-1] < _LONGEST_US, "clocks have 32 bits"
    return Stream(
        least_us=least_us.tolist(),
        most_us=most_us.tolist(),
        is_first=[True, *(np.diff(chunks) > 0).tolist()],
        starts=int((came_ns <= SAME_MOMENT_NS).sum()),
    )


def most_slow(tokens: int) -> int:
    """How many of `tokens` gaps are above their p99 at most, as `percentile` has it."""
    return tokens - math.ceil(0.99 * tokens * (1 - 1e-12))


def most_fast(tokens: int) -> int:
    """How many are below their median at most."""
    return max(0, math.ceil(0.5 * tokens * (1 - 1e-12)) - 1)


def is_reachable(stream: Stream, fast_us: Values, slow_us: Values) -> Claims:
    """Whether a release can have a median of at least `fast_us` and a p99 of at most `slow_us`.

    Args:
        stream: Whose releases.
        fast_us: One for each case, shape (cases,); all zero if medians do not matter.
        slow_us: Same shape.

    Returns:
        For each case; False is proven. Same shape.

    Cost: for each token the chunks within the bound, times cases, times slow and fast tokens.
    """
    tokens = len(stream.least_us)
    slow, fast = most_slow(tokens - 1), most_fast(tokens - 1) if fast_us.any() else 0
    shape = (len(fast_us), slow + 1, fast + 1)
    pieces: dict[int, _Piece] = {}
    ends: dict[int, _Ends] = {}
    oldest = 0
    for token in range(tokens):
        found = _Ends(shape)
        if token < stream.starts:
            gaps = tokens - 1 - token
            found.begin(slow - most_slow(gaps), max(0, fast - most_fast(gaps)))
        while oldest + 1 < token and stream.most_us[oldest + 1] < stream.least_us[token]:
            del ends[oldest]  # no piece from there is in time for this token or a later one
            oldest += 1
        for before in range(oldest, token):
            if before == token - 1 or stream.is_first[before + 1]:
                size = token - before
                if size not in pieces:
                    pieces[size] = _Piece(size, fast_us, slow_us)
                window = stream.least_us[token], stream.most_us[before + 1]
                found.go_on(ends[before], pieces[size], window)
        ends[token] = found
    last = ends[tokens - 1]
    return np.asarray((last.least <= last.most).any(axis=(1, 2)))


class _Ends:
    """When a piece can end with one token: an interval for each case and count.

    Attributes:
        least: By case, slow tokens up to there at most, fast ones at most; `_NEVER` if at no time.
        most: Same shape.
    """

    __slots__ = ("least", "most")

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.least: Clocks = np.full(shape, _NEVER, np.int32)
        self.most: Clocks = np.full(shape, -_NEVER, np.int32)

    def begin(self, slow: int, fast: int) -> None:
        """It can be the first piece, which leaves at once, with so many counted before."""
        self.least[:, slow:, fast:] = self.most[:, slow:, fast:] = 0

    def go_on(self, before: "_Ends", piece: "_Piece", window: tuple[int, int]) -> None:
        """It can be one more piece, which has to leave within a window."""
        n = piece.tokens
        _, slow, fast = self.least.shape
        most = before.most + piece.most_us
        self._widen(np.s_[:], before.least + piece.least_us, most, window)
        # What is counted as fast or slow may be neither: that rules out no release.
        if n < fast:
            self._widen(np.s_[:, :, n:], before.least[:, :, :-n], most[:, :, :-n], window)
        if n < slow:
            least = before.least[:, :-n]
            self._widen(np.s_[:, n:], least, np.full_like(least, window[1]), window)

    def _widen(self, counts: Counts, least: Clocks, most: Clocks, window: tuple[int, int]) -> None:
        least, most = np.maximum(least, window[0]), np.minimum(most, window[1])
        empty = least > most
        np.copyto(least, _NEVER, where=empty)
        np.copyto(most, -_NEVER, where=empty)
        np.minimum(self.least[counts], least, out=self.least[counts])
        np.maximum(self.most[counts], most, out=self.most[counts])


class _Piece:
    """What the gap before a piece can be; each of shape (cases, 1, 1).

    Attributes:
        tokens: How many.
        least_us: Of a gap that is not fast.
        most_us: Of one that is not slow.
    """

    __slots__ = ("least_us", "most_us", "tokens")

    def __init__(self, tokens: int, fast_us: Values, slow_us: Values) -> None:
        self.tokens = tokens
        self.least_us = _clocks(np.floor(tokens * fast_us * (1 - ROUNDED)))
        self.most_us = _clocks(np.ceil(tokens * slow_us * (1 + ROUNDED)))


def _clocks(values: Values) -> Clocks:
    return np.minimum(values, _LONGEST_US).astype(np.int32)[:, None, None]
