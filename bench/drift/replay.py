"""Replays recorded answers with each way to draft, in the order in which they were written.

All draft at most as many tokens as the head has positions, at every place. The adapted head follows
the worker's rules: it is trained on what was recorded before, published if it is better on held-out
text, tried beside the serving one on the answers that follow (`engine.policy.Contest`), and rolled
back by the same test.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from bench.drift.traffic import Recorded
from bench.suffix.replay import accepted_of
from engine.heads import DraftHead
from engine.policy import Contest, Verdict
from engine.suffix import SuffixIndex
from engine.traffic import Seal, Segment, list_segments, read_segment, tokens_of
from engine.training.adapt.fine_tune import fine_tune, load_base
from engine.training.adapt.judge import count_matches
from engine.training.adapt.traffic import read_traffic
from engine.training.replay import Acceptance, walk
from engine.training.shard import Shard
from loadtest.progress import say

_PAIR_ROWS = 4
"""Rows from one pair of a trial to the next; the worker draws one in four steps."""

_INDEX_BYTES = 256 << 20


@dataclass(slots=True)
class Part:
    """Some consecutive answers of one kind.

    Attributes:
        kind: Of the prompts.
        tokens: Answer tokens.
        static, suffix, adapted: What each way drafted, and what was accepted.
        event: What became of heads meanwhile.
    """

    kind: str
    tokens: int
    static: Acceptance
    suffix: Acceptance
    adapted: Acceptance
    event: list[str] = field(default_factory=list)


def replay(recorded: Recorded, *, every_tokens: int, part_tokens: int) -> list[Part]:
    """Replay everything.

    Args:
        recorded: What a worker recorded.
        every_tokens: Answer tokens from one training to the next.
        part_tokens: Answer tokens of a part.
    """
    paths = list_segments(recorded.folder.segments(0))
    served = recorded.folder.read_serving()
    assert served is not None
    folder, target = served
    static = load_base(folder, recorded.folder)
    index = SuffixIndex(_INDEX_BYTES, vocabulary=static.config.vocab_size)
    contestants = _Contestants(static)
    parts: list[Part] = []
    trained_at = tokens = 0
    for kind, several in _parts(paths, recorded, part_tokens):
        segments = [read_segment(path, Seal()) for path in several]
        parts.append(_replay_part(kind, segments, static, index, contestants))
        tokens += parts[-1].tokens
        _say(parts[-1], tokens)
        if tokens - trained_at >= every_tokens:
            trained_at = tokens
            known = paths[: paths.index(several[-1]) + 1]
            traffic = read_traffic(known, Seal(), target=target)
            assert traffic is not None
            tuned = fine_tune(contestants.serving, traffic, seed=len(known))
            found = f"{tuned.before:.3f} to {tuned.after:.3f} on held-out text"
            say(f"trained {tuned.steps} steps: {found}")
            if tuned.is_better:
                contestants.offer(tuned.head)
                parts[-1].event.append("published")
    return parts


class _Contestants:
    """The serving head and the one beside it, with the rules of `engine.worker.heads`."""

    def __init__(self, serving: DraftHead) -> None:
        self.serving = serving
        self.other: DraftHead | None = None
        self._contest = Contest()
        self._is_guard = False

    def offer(self, head: DraftHead) -> None:
        """Try a head; it ends the trial before."""
        self.other, self._contest, self._is_guard = head, Contest(), False

    def judge(self, ours: NDArray[np.int64], others: NDArray[np.int64]) -> str | None:
        """Take in an answer's matches at each row with both heads; return what follows from it."""
        for at in range(0, len(ours) - 1, _PAIR_ROWS):
            self._contest.add(float(others[at] - ours[at]))
        verdict, other = self._contest.verdict, self.other
        if verdict is None or other is None:
            return None
        if verdict is not Verdict.BETTER:
            self.other = None
            return None if self._is_guard else "kept"
        said = "rolled back" if self._is_guard else "adopted"
        guard = None if self._is_guard else self.serving
        self.serving, self.other = other, guard
        self._contest, self._is_guard = Contest(), True
        return said


def _parts(
    paths: Sequence[Path], recorded: Recorded, part_tokens: int
) -> Iterator[tuple[str, list[Path]]]:
    """Yield parts of the text, each of one kind."""
    after = ""
    for kind, until in recorded.until.items():
        of_kind = [path for path in paths if after < path.name <= until]
        after = until
        several: list[Path] = []
        tokens = 0
        for path in of_kind:
            several.append(path)
            tokens += tokens_of(path)
            if tokens >= part_tokens:
                yield kind, several
                several, tokens = [], 0


def _replay_part(
    kind: str,
    segments: Sequence[Segment],
    static: DraftHead,
    index: SuffixIndex,
    contestants: _Contestants,
) -> Part:
    positions = static.config.positions
    shard = Shard.of(
        torch.cat([one.hidden for one in segments]),
        torch.cat([one.tokens for one in segments]).to(torch.int64),
        lengths=[len(one.tokens) for one in segments],
        prompts=[one.prompt_rows for one in segments],
        kinds=[kind] * len(segments),
    )
    matched: dict[int, NDArray[np.int64]] = {}

    def matches(head: DraftHead) -> NDArray[np.int64]:
        if id(head) not in matched:
            matched[id(head)] = count_matches(head, shard)
        return matched[id(head)]

    nothing = Acceptance(np.zeros(positions, np.int64), np.zeros(positions, np.int64))
    part = Part(kind, shard.answer_tokens, nothing, nothing, nothing)
    begin = 0
    for number, (length, prompt) in enumerate(zip(shard.lengths, shard.prompts, strict=True)):
        rows = slice(begin + prompt, begin + length)
        ours = matches(contestants.serving)[rows]
        part.static += walk(matches(static)[rows], positions=positions)
        part.adapted += walk(ours, positions=positions)
        part.suffix += _suffix(
            index, segments[number], name=segments[number].request, most=positions
        )
        if contestants.other is not None:
            said = contestants.judge(ours, matches(contestants.other)[rows])
            part.event += [] if said is None else [said]
        begin += length
    return part


def _suffix(index: SuffixIndex, segment: Segment, *, name: str, most: int) -> Acceptance:
    """Decode an answer with the index alone; it learns the answer afterwards."""
    text: list[int] = segment.tokens.tolist()
    at = segment.prompt_rows + 1
    drafted, accepted = np.zeros(most, np.int64), np.zeros(most, np.int64)
    index.start(name, "bench", np.array(text[:at], np.int32))
    while at < len(text):
        draft = index.propose(name, most).tokens
        hit = accepted_of(draft, text[at:])
        drafted[: len(text) - at] += 1  # as heads draft at every place
        accepted[:hit] += 1
        following = text[at : at + hit + 1]
        index.extend(name, following)
        at += len(following)
    index.finish(name, keep=True)
    return Acceptance(drafted, accepted)


def _say(part: Part, tokens: int) -> None:
    ways = ("static", part.static), ("suffix", part.suffix), ("adapted", part.adapted)
    ratios = ", ".join(f"{name} {found.ratio:.3f}" for name, found in ways)
    say(f"{tokens} tokens, {part.kind}: {ratios} {' '.join(part.event)}")
