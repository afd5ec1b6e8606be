"""Figures from time stamps and packets: delay of each token, gaps as a reader sees them. Pure.

Every figure is in milliseconds. Arrays of clocks are int64 nanoseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.pacing.dialect import Arrival
from bench.pacing.patterns import Numbers, Pattern

Values = NDArray[np.float64]

SAME_MOMENT_NS = 1_000_000
"""Text that arrives within a millisecond counts as one piece, as no reader can tell it apart."""


class MismatchError(Exception):
    """A client received another text than the worker sent."""


@dataclass(frozen=True, slots=True, eq=False)  # arrays have no one answer to ==
class Played:
    """One complete answer.

    Attributes:
        pattern: What the worker played.
        sent_ns: When each chunk left the worker, and the end; shape (chunks + 1,).
        received_ns: When the client had each token whole; shape (tokens,).
        piece_ns: When each piece of text reached the client; shape (pieces,).
        piece_ends: Characters of the text up to each piece's end; same shape.
        end_ns: When the client had the end.
        bytes: Of the whole answer, its head included.
    """

    pattern: Pattern
    sent_ns: Numbers
    received_ns: Numbers
    piece_ns: Numbers
    piece_ends: Numbers
    end_ns: int
    bytes: int

    @property
    def delays_ms(self) -> Values:
        """From the worker's write to the client's read, for each token."""
        return (self.received_ns - self.sent_ns[self.pattern.chunk_of_token]) / 1e6

    @property
    def first_ms(self) -> float:
        """From the worker's first write to the client's first text."""
        return float(self.piece_ns[0] - self.sent_ns[0]) / 1e6

    @property
    def end_ms(self) -> float:
        """From the worker's end to the client's."""
        return float(self.end_ns - self.sent_ns[-1]) / 1e6

    @property
    def seconds(self) -> float:
        """From the worker's first write to the client's end."""
        return float(self.end_ns - self.sent_ns[0]) / 1e9

    def worker_gaps(self) -> "Gaps":
        """As the worker sent it."""
        chunks = self.pattern.chunks
        tokens = np.cumsum([chunk.tokens for chunk in chunks]).astype(float)
        return gaps_of(self.sent_ns[:-1], tokens, np.cumsum([len(chunk.text) for chunk in chunks]))

    def client_gaps(self) -> "Gaps":
        """As the client got it."""
        marks = np.concatenate([[0], self.pattern.token_ends])
        tokens = np.arange(len(marks), dtype=float)
        # A piece may end within a token, of which a part has arrived.
        token_ends = np.interp(self.piece_ends, marks, tokens)
        return gaps_of(self.piece_ns, token_ends, self.piece_ends)


def played(
    pattern: Pattern, sent_ns: Sequence[int], arrivals: Sequence[Arrival], end: tuple[int, int]
) -> Played:
    """Join what worker and client recorded of one answer.

    Args:
        pattern: What the worker played.
        sent_ns: The worker's stamps, the end's last.
        arrivals: Text by packet.
        end: Clock of the last packet, and bytes of all.

    Raises:
        MismatchError: The text is not the pattern's, or the worker did not send all of it.
    """
    text = "".join(arrival.text for arrival in arrivals)
    if text != pattern.text:
        at = next(
            (i for i, (a, b) in enumerate(zip(text, pattern.text, strict=False)) if a != b), 0
        )
        raise MismatchError(
            f"{pattern.name}: the client has {len(text)} characters, the worker sent "
            f"{len(pattern.text)}; they differ from {at} on: {text[at : at + 40]!r}"
        )
    if len(sent_ns) != len(pattern.chunks) + 1:
        raise MismatchError(f"{pattern.name}: {len(sent_ns)} stamps of the worker")
    piece_ns = np.array([arrival.at_ns for arrival in arrivals], np.int64)
    piece_ends = np.cumsum([len(arrival.text) for arrival in arrivals])
    pieces = np.searchsorted(piece_ends, pattern.token_ends, side="left")
    return Played(
        pattern=pattern,
        sent_ns=np.array(sent_ns, np.int64),
        received_ns=piece_ns[pieces],
        piece_ns=piece_ns,
        piece_ends=piece_ends,
        end_ns=end[0],
        bytes=end[1],
    )


Unit = Literal["token", "character", "piece"]


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """The gaps of one stream: from each piece of text to the next.

    Attributes:
        ms: Length of each gap; text that arrives within a millisecond is one piece.
        tokens: Tokens of the piece after each gap, whole ones, at least 1.
        characters: Characters of that piece, at least 1; all of the same shape.
    """

    ms: Values
    tokens: Values
    characters: Values

    @property
    def tokens_per_piece(self) -> float | None:
        """Mean tokens of a piece."""
        return float(self.tokens.mean()) if len(self.tokens) else None

    def ratio(self, unit: Unit) -> float | None:
        """p99 over median of the gap per unit: a piece of n tokens after g ms is n gaps of g/n."""
        return _ratio(*self._per(unit))

    def variation(self, unit: Unit) -> float | None:
        """Coefficient of variation of the gap per unit."""
        return _variation(*self._per(unit))

    def _per(self, unit: Unit) -> tuple[Values, Values]:
        weights = {
            "token": self.tokens,
            "character": self.characters,
            "piece": np.ones_like(self.ms),  # one gap each, whatever its size
        }[unit]
        return self.ms / weights, weights


def gaps_of(at_ns: Numbers, token_ends: Values, character_ends: Numbers) -> Gaps:
    """The gaps between pieces.

    Args:
        at_ns: When each piece passed, rising; at least one.
        token_ends: Tokens up to the end of each, whole or parts; same shape.
        character_ends: Characters up to there; same shape.
    """
    begins = [0]
    for number in range(1, len(at_ns)):
        if at_ns[number] - at_ns[begins[-1]] > SAME_MOMENT_NS:
            begins.append(number)
    firsts = np.array(begins)
    lasts = np.append(firsts[1:], len(at_ns)) - 1
    # Where a token ends within a chunk is only estimated, so a piece counts as the nearest whole
    # number of tokens.
    tokens = np.maximum(1.0, np.rint(np.diff(token_ends[lasts])))
    characters = np.maximum(1.0, np.diff(character_ends[lasts]))
    return Gaps(np.diff(at_ns[firsts]) / 1e6, tokens, characters)


def percentile(values: Values, ratio: float, weights: Values | None = None) -> float | None:
    """Nearest-rank percentile, each value counting as often as its weight says; None of nothing."""
    if not len(values):
        return None
    order = np.argsort(values)
    counted = np.ones(len(values)) if weights is None else weights[order]
    sums = np.cumsum(counted)
    at = np.searchsorted(sums, ratio * sums[-1] * (1 - 1e-12), side="left")
    return float(values[order][min(int(at), len(values) - 1)])


def _ratio(values: Values, weights: Values) -> float | None:
    p99, median = percentile(values, 0.99, weights), percentile(values, 0.5, weights)
    return p99 / median if p99 is not None and median else None


def _variation(values: Values, weights: Values) -> float | None:
    if not len(values):
        return None
    mean = float(np.average(values, weights=weights))
    return float(np.sqrt(np.average((values - mean) ** 2, weights=weights))) / mean
