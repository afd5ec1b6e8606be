"""Replays recorded answers through a suffix index as an engine that decodes greedily would.

Knows nothing of the index: a `Subject` is ours or the peer's. The clock is read around each call
in the same way for both, and what reading it takes is taken off.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol

import numpy as np

from bench.rounds import Json
from bench.suffix.datasets import Request, Tokens

_LEAST_PROBABILITY = 1e-3
_CLOCK_READINGS = 1000


class Subject(Protocol):
    """An index under test, with a draft of its own kind."""

    def start(self, name: str, prompt: Tokens) -> None:
        """Begin a request."""

    def append(self, name: str, tokens: list[int]) -> None:
        """Tell what was generated; a list, as vLLM hands it over."""

    def propose(self, name: str, text: Tokens, end: int) -> tuple[object, list[int]]:
        """Draft what follows `text[:end]`: the draft as it is, and its tokens as a list."""

    def finish(self, name: str) -> None:
        """End a request; its answer stays."""

    def claims(self, draft: object) -> tuple[Sequence[float], Sequence[float]]:
        """For each token the stated probability that it is accepted, and the raw share."""


@dataclass(slots=True)
class Tally:
    """What a replay counted. Times are sums in nanoseconds, without those of reading the clock."""

    requests: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    steps: int = 0
    accepted: int = 0
    drafted: int = 0
    stated_loss: float = 0.0
    raw_loss: float = 0.0
    prompt_ns: int = 0
    append_ns: int = 0
    finish_ns: int = 0
    propose_ns: list[int] = field(default_factory=list, repr=False)

    def as_json(self) -> Json:
        """The counts, and the distribution of `propose_ns` instead of every value."""
        found: Json = asdict(self)
        found["propose_ns"] = distribution(self.propose_ns)
        return found


def distribution(values: Sequence[int]) -> Json:
    """Mean and percentiles; every one None where there are no values."""
    if not values:
        return dict.fromkeys(("count", "mean", "p50", "p99", "p999"))
    p50, p99, p999 = np.percentile(np.array(values), [50, 99, 99.9])
    return {
        "count": len(values),
        "mean": float(np.mean(values)),
        "p50": float(p50),
        "p99": float(p99),
        "p999": float(p999),
    }


def accepted_of(draft: Sequence[int], truth: Sequence[int]) -> int:
    """How many tokens of the draft greedy decoding would have written."""
    accepted = 0
    for token, true in zip(draft, truth, strict=False):
        if token != true:
            break
        accepted += 1
    return accepted


def log_loss(probabilities: Sequence[float], accepted: int) -> float:
    """Surprise over a draft, summed: each token was accepted with all before it, or was not."""
    loss = 0.0
    for place, stated in enumerate(probabilities):
        probability = min(max(stated, _LEAST_PROBABILITY), 1 - _LEAST_PROBABILITY)
        loss -= math.log(probability if place < accepted else 1 - probability)
    return loss


def clock_cost() -> int:
    """What two readings of the clock are apart with nothing between them, in nanoseconds: median.

    A call of ours takes three or four times as long, so it would count for much of its time.
    """
    clock = time.perf_counter_ns
    apart = []
    for _ in range(_CLOCK_READINGS):
        began = clock()
        apart.append(clock() - began)
    return int(np.median(apart))


def replay(subject: Subject, requests: Sequence[Request]) -> Tally:
    """Replay requests one after the other; the first token of each answer is the prefill's."""
    tally, cost = Tally(), clock_cost()
    for number, request in enumerate(requests):
        _replay_one(subject, f"r{number}", request, tally, cost)
    return tally


def _replay_one(subject: Subject, name: str, request: Request, tally: Tally, cost: int) -> None:
    clock = time.perf_counter_ns
    text = np.concatenate([request.prompt, request.answer])
    answer: list[int] = request.answer.tolist()
    began = clock()
    subject.start(name, request.prompt)
    tally.prompt_ns += clock() - began - cost
    new = answer[:1]
    at = 1
    while True:
        began = clock()
        subject.append(name, new)
        tally.append_ns += clock() - began - cost
        if at >= len(answer):
            break
        began = clock()
        draft, tokens = subject.propose(name, text, len(request.prompt) + at)
        tally.propose_ns.append(clock() - began - cost)
        accepted = accepted_of(tokens, answer[at : at + len(tokens)])
        stated, raw = subject.claims(draft)
        tally.stated_loss += log_loss(stated, accepted)
        tally.raw_loss += log_loss(raw, accepted)
        tally.steps += 1
        tally.accepted += accepted
        tally.drafted += len(tokens)
        new = answer[at : at + accepted + 1]
        at += accepted + 1
    began = clock()
    subject.finish(name)
    tally.finish_ns += clock() - began - cost
    tally.requests += 1
    tally.prompt_tokens += len(request.prompt)
    tally.answer_tokens += len(answer)
