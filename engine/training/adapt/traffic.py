"""Reads recorded traffic: all of the newest text, some of the older, one request in eight apart."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.errors import TrafficError
from engine.traffic import AdaptFolder, Seal, Segment, list_segments, read_segment, tokens_of
from engine.training.shard import Shard

_NEWEST_TOKENS, _OLDER_TOKENS = 40_000, 10_000
"""What a training reads at most: half a gigabyte for a model of hidden size 4,096."""

_HELD_OUT_EVERY = 8


@dataclass(frozen=True, slots=True)
class Traffic:
    """Text to learn from, and to judge the result by.

    Attributes:
        training: Newest and older text.
        held_out: Newest text of other requests.
        damaged: Segments that could not be read.
    """

    training: Shard
    held_out: Shard
    damaged: int

    def counts(self) -> Counter[int]:
        """Return how often each token occurs in the answers to learn from."""
        shard = self.training
        is_answer = torch.arange(len(shard.tokens)) >= shard.answers
        return Counter(shard.tokens[is_answer].tolist())


def all_segments(folder: AdaptFolder) -> list[Path]:
    """Return the segments of all ranks, oldest first."""
    found = [path for ring in folder.rings for path in list_segments(ring)]
    return sorted(found, key=lambda path: path.name)


def read_traffic(paths: Sequence[Path], seal: Seal, *, target: str) -> Traffic | None:
    """Read what to learn from; None if a part of it would be empty.

    Args:
        paths: All segments, oldest first. Those that are damaged, of another model or deleted
            meanwhile are left out.
        seal: Opens them.
        target: Digest of the model.
    """
    newest, older = _choose(paths)
    training: list[Segment] = []
    held_out: list[Segment] = []
    damaged = 0
    for path in (*older, *newest):
        try:
            segment = read_segment(path, seal)
        except FileNotFoundError:
            continue
        except (OSError, TrafficError):
            damaged += 1
            continue
        if segment.target != target or segment.answer_tokens < 2:
            continue
        if int(segment.request, 16) % _HELD_OUT_EVERY:
            training.append(segment)
        elif path in newest:
            held_out.append(segment)
    if not training or not held_out:
        return None
    return Traffic(_shard(training), _shard(held_out), damaged)


def _choose(paths: Sequence[Path]) -> tuple[frozenset[Path], list[Path]]:
    """Return the newest segments, and some of the older ones, evenly."""
    count = tokens = 0
    for path in reversed(paths):
        if tokens >= _NEWEST_TOKENS:
            break
        tokens += tokens_of(path)
        count += 1
    split = len(paths) - count
    older = paths[:split]
    every = max(1, -(-sum(map(tokens_of, older)) // _OLDER_TOKENS))
    return frozenset(paths[split:]), list(older[::every])


def _shard(segments: Iterable[Segment]) -> Shard:
    segments = list(segments)
    return Shard.of(
        torch.cat([one.hidden for one in segments]),
        torch.cat([one.tokens for one in segments]).to(torch.int64),
        lengths=[len(one.tokens) for one in segments],
        prompts=[one.prompt_rows for one in segments],
        kinds=["traffic"] * len(segments),
    )
