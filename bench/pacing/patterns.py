"""Arrival patterns: when a worker sends which text, and how many tokens it has.

Recorded from a real worker or made up here; both are data, saved as JSON lines and played again.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadtest.conversations import DataError, read_lines

Numbers = NDArray[np.int64]

ANSWER = "answer"
"""Kind of the patterns that the attacker is trained and tested on."""
_TOKENS_PER_SECOND = 50
_STEP_SECONDS = 0.04  # of a worker with some load
_MOST_TOKENS = 16
_STALL_SECONDS = 1.0
_STALL_TOKENS = 75
# Words of one to three tokens with and without accents, a wide and a joined character: a piece must
# not end within one of these characters.
_WORDS = (" the", " stream", " goes", " on", ",", " naïve", " words", " 你好", " 👩‍🔬", " and", ".")


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a worker sends at once.

    Attributes:
        offset_ns: After the request came in.
        text: Not empty.
        tokens: How many tokens the text has, at least 1.
    """

    offset_ns: int
    text: str
    tokens: int


@dataclass(frozen=True)
class Pattern:
    """One answer.

    Attributes:
        name: Unique in its file.
        kind: Group of its figures: `chat-8` is chat recorded with eight concurrent clients.
        chunks: In order, at least one.
        prompt: Which prompt it answers; of answers for the attacker only.
        run: Number of the run of that prompt.
    """

    name: str
    kind: str
    chunks: Sequence[Chunk]
    prompt: int | None = None
    run: int | None = None

    @cached_property
    def text(self) -> str:
        """The whole text."""
        return "".join(chunk.text for chunk in self.chunks)

    @cached_property
    def tokens(self) -> int:
        """Tokens of all chunks."""
        return sum(chunk.tokens for chunk in self.chunks)

    @cached_property
    def token_ends(self) -> Numbers:
        """Characters of the text up to each token's end; shape (tokens,), never falling.

        A chunk's characters are divided evenly among its tokens, since the stream does not say
        where a token ends.
        """
        ends: list[int] = []
        begin = 0
        for chunk in self.chunks:
            size = len(chunk.text)
            ends += [begin - (-size * (i + 1) // chunk.tokens) for i in range(chunk.tokens)]
            begin += size
        return np.array(ends, np.int64)

    @cached_property
    def chunk_of_token(self) -> Numbers:
        """The chunk that each token was sent in; shape (tokens,)."""
        counts = [chunk.tokens for chunk in self.chunks]
        return np.repeat(np.arange(len(counts)), counts)


def synthetic(*, tokens: int, copies: int, seed: int) -> list[Pattern]:
    """Patterns of every made-up kind.

    Args:
        tokens: Tokens of each, at 50 a second on the whole; stalls are added to that, and
            bursts, one every 40 ms, are faster.
        copies: Patterns of a kind; those that draw numbers draw others in each copy.
        seed: Of what is drawn.
    """
    return [
        Pattern(f"{kind}-{copy}", kind, _timed(steps(tokens, Random(f"{seed} {kind} {copy}"))))
        for kind, steps in _KINDS.items()
        for copy in range(copies)
    ]


# A kind yields, for each chunk, the seconds since the one before it and its tokens.
Steps = Iterator[tuple[float, int]]


def _bursts(tokens: int, rng: Random) -> Steps:
    while tokens > 0:
        count = min(tokens, rng.randint(1, _MOST_TOKENS))
        tokens -= count
        yield _STEP_SECONDS, count


def _slow_bursts(tokens: int, rng: Random) -> Steps:
    # So slow that a burst is due, by the bound, long before the next one comes.
    beat_seconds = (1 + _MOST_TOKENS) / 2 / _TOKENS_PER_SECOND
    return ((beat_seconds, count) for _, count in _bursts(tokens, rng))


def _steady(tokens: int, _rng: Random) -> Steps:
    return ((1 / _TOKENS_PER_SECOND, 1) for _ in range(tokens))


def _stalls(tokens: int, _rng: Random) -> Steps:
    # More often than one token in a hundred, so that p99 does not leave them out.
    for number in range(tokens):
        stalled = number and number % _STALL_TOKENS == 0
        yield 1 / _TOKENS_PER_SECOND + (_STALL_SECONDS if stalled else 0.0), 1


def _ramps(tokens: int, _rng: Random) -> Steps:
    # From a quarter of the rate to four times it and back, as a batch empties and fills again.
    for number in range(tokens):
        distance = abs(2 * number / tokens - 1)  # 1 at both ends, 0 in the middle
        yield 1 / (_TOKENS_PER_SECOND * 4 ** (1 - 2 * distance)), 1


_KINDS: Mapping[str, Callable[[int, Random], Steps]] = {
    "steady": _steady,
    "bursts": _bursts,
    "slow-bursts": _slow_bursts,
    "stalls": _stalls,
    "ramps": _ramps,
}


def speculative(tokens: int, rng: Random, *, tokens_per_chunk: float) -> Sequence[Chunk]:
    """Chunks as a speculating worker sends them: a steady beat, 50 tokens a second.

    Args:
        tokens: Of all chunks.
        rng: What the sizes are drawn from.
        tokens_per_chunk: Mean of them, at least 1; drawn as the acceptance of a draft is, so
            that small ones are frequent and large ones rare, 16 at most.
    """
    return _timed(_accepted(tokens, rng, tokens_per_chunk))


def _accepted(tokens: int, rng: Random, mean: float) -> Steps:
    accept = 1 - 1 / mean
    while tokens > 0:
        count = 1
        while count < _MOST_TOKENS and rng.random() < accept:
            count += 1
        count = min(count, tokens)
        tokens -= count
        yield mean / _TOKENS_PER_SECOND, count


def _timed(steps: Steps) -> Sequence[Chunk]:
    chunks = []
    at_seconds, number = 0.0, 0
    for gap_seconds, tokens in steps:
        at_seconds += gap_seconds
        text = "".join(_WORDS[(number + i) % len(_WORDS)] for i in range(tokens))
        number += tokens
        chunks.append(Chunk(round(at_seconds * 1e9), text, tokens))
    return chunks


def save_patterns(path: Path, patterns: Sequence[Pattern]) -> None:
    """Write patterns as JSON lines, replacing the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for pattern in patterns:
            chunks = [[chunk.offset_ns, chunk.text, chunk.tokens] for chunk in pattern.chunks]
            fields = {
                "name": pattern.name,
                "kind": pattern.kind,
                "chunks": chunks,
                "prompt": pattern.prompt,
                "run": pattern.run,
            }
            file.write(json.dumps(fields, ensure_ascii=False) + "\n")


def load_patterns(path: Path) -> list[Pattern]:
    """Read what `save_patterns` wrote.

    Raises:
        DataError: A line is no pattern, two have one name, or there is none.
        OSError: The file cannot be read.
    """
    found: dict[str, Pattern] = {}
    for pattern in read_lines(path, _pattern_of):
        if pattern.name in found:
            raise DataError(f"{path.name}: {pattern.name} is there twice")
        found[pattern.name] = pattern
    if not found:
        raise DataError(f"{path.name}: no patterns")
    return list(found.values())


def _pattern_of(fields: Mapping[str, Any]) -> Pattern:
    chunks = [Chunk(int(at), str(text), int(count)) for at, text, count in fields["chunks"]]
    if not chunks or min(len(chunk.text) for chunk in chunks) == 0:
        raise ValueError("an empty answer or chunk")
    if min(chunk.tokens for chunk in chunks) < 1:
        raise ValueError("a chunk without tokens")
    name, kind = str(fields["name"]), str(fields["kind"])
    return Pattern(name, kind, chunks, fields["prompt"], fields["run"])
