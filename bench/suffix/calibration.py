"""How far the stated survival of drafted tokens can be believed, by what they are part of."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.rounds import Json
from bench.suffix.datasets import Request, Tokens
from bench.suffix.kinds import KINDS
from bench.suffix.replay import accepted_of, log_loss, replay
from bench.suffix.worker import BatchSubject, DataSets, Factory
from engine.suffix import Continuation

_END_TOKENS = 8  # before the end of an answer
_BINS = 10


@dataclass(slots=True)
class Tally:
    """Drafted tokens whose outcome is known. Those past the end of an answer are not counted.

    Attributes:
        stated: Sum of the stated survivals, by tenth of the survival.
        accepted: How many of them were accepted, likewise.
        drafted: How many there were, likewise.
    """

    loss: float = 0.0
    stated: list[float] = field(default_factory=lambda: [0.0] * _BINS)
    accepted: list[int] = field(default_factory=lambda: [0] * _BINS)
    drafted: list[int] = field(default_factory=lambda: [0] * _BINS)

    def add(self, survival: float, *, is_accepted: bool) -> None:
        at = min(int(survival * _BINS), _BINS - 1)
        self.loss += log_loss([survival], int(is_accepted))
        self.stated[at] += survival
        self.accepted[at] += is_accepted
        self.drafted[at] += 1

    def as_json(self) -> Json:
        """Means a token; `excess` is what the log-loss loses by wrong survivals.

        That is the mean divergence, over the tenths, of the accepted share from the stated mean.
        """
        total = max(1, sum(self.drafted))
        excess = sum(
            count * _divergence(accepted / count, stated / count)
            for stated, accepted, count in zip(
                self.stated, self.accepted, self.drafted, strict=True
            )
            if count
        )
        return {
            "tokens": sum(self.drafted),
            "log_loss": self.loss / total,
            "stated": sum(self.stated) / total,
            "accepted": sum(self.accepted) / total,
            "excess": excess / total,
        }


def measure_calibration(
    factory: Factory, datasets: DataSets, arguments: Mapping[str, object]
) -> Json:
    """Replay every set with a fresh index, and tell how it did on each kind of token."""
    setting = arguments["setting"]
    assert isinstance(setting, dict)
    tallies = {name: Tally() for name in (*KINDS, "end")}
    for dataset in datasets.values():
        replay(_Watched(factory(setting), dataset.requests, tallies), dataset.requests)
    return {name: tally.as_json() for name, tally in tallies.items()}


class _Watched:
    """An index whose drafts are tallied; calls are as in `replay.Subject`."""

    def __init__(
        self, index: BatchSubject, requests: Sequence[Request], tallies: Mapping[str, Tally]
    ) -> None:
        self._index = index
        self._requests = {f"r{number}": request for number, request in enumerate(requests)}
        self._tallies = tallies
        self.start, self.append, self.finish = index.start, index.append, index.finish
        self.claims = index.claims

    def propose(self, name: str, text: Tokens, end: int) -> tuple[object, list[int]]:
        draft, tokens = self._index.propose(name, text, end)
        assert isinstance(draft, Continuation)
        request = self._requests[name]
        at = end - len(request.prompt)
        truth = request.answer[at : at + len(tokens)].tolist()
        accepted = accepted_of(tokens, truth)
        # Behind the end of the answer nothing is known, so the shorter one ends the loop.
        for number, (survival, _) in enumerate(zip(draft.survival, truth, strict=False)):
            kinds = [KINDS[request.kinds[at + number]]]
            if at + number >= len(request.answer) - _END_TOKENS:
                kinds.append("end")
            for kind in kinds:
                self._tallies[kind].add(survival, is_accepted=number < accepted)
        return draft, tokens


def _divergence(share: float, stated: float) -> float:
    """Kullback and Leibler's, of a coin with `share` from one with `stated`; both 0 to 1."""
    pairs = ((share, stated), (1 - share, 1 - stated))
    return sum(p * math.log(p / max(q, 1e-3)) for p, q in pairs if p > 0)
