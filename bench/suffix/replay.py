"""Replays recorded answers through a suffix index as an engine that decodes greedily would.

A `Subject` is our index or the peer's. The clock is read around each call in the same way for both,
and the time of reading it is subtracted.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np

from bench.rounds import Json
from bench.suffix.datasets import Request, Tokens

_LEAST_PROBABILITY = 1e-3
_CLOCK_READINGS = 1000


class Subject(Protocol):
    """An index under test; its drafts may be of any type."""

    def start(self, name: str, prompt: Tokens) -> None:
        """Begin a request."""

    def append(self, name: str, tokens: list[int]) -> None:
        """Add generated tokens; a list, as vLLM passes it."""

    def propose(self, name: str, text: Tokens, end: int) -> tuple[object, list[int]]:
        """Draft what follows `text[:end]`: the draft as it is, and its tokens as a list."""

    def finish(self, name: str) -> None:
        """End a request; its answer stays."""

    def claims(self, draft: object) -> tuple[Sequence[float], Sequence[float]]:
        """For each token the stated probability that it is accepted, and the raw vote share."""


@dataclass(slots=True)
class Figures:
    """What replays of one or several data sets counted.

    Times are sums in nanoseconds, without those of reading the clock.
    """

    requests: float = 0
    prompt_tokens: float = 0
    answer_tokens: float = 0
    steps: float = 0
    accepted: float = 0
    drafted: float = 0
    stated_loss: float = 0
    raw_loss: float = 0
    prompt_ns: float = 0
    append_ns: float = 0
    finish_ns: float = 0
    propose_sum_ns: float = 0

    def __add__(self, other: "Figures") -> "Figures":
        names = [field.name for field in fields(Figures)]
        return Figures(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def accepted_per_step(self) -> float:
        return self.accepted / max(1.0, self.steps)

    @property
    def drafted_per_step(self) -> float:
        return self.drafted / max(1.0, self.steps)

    @property
    def stated_log_loss(self) -> float:
        return self.stated_loss / max(1.0, self.drafted)

    @property
    def raw_log_loss(self) -> float:
        return self.raw_loss / max(1.0, self.drafted)

    @property
    def append_token_ns(self) -> float:
        return self.append_ns / max(1.0, self.answer_tokens)

    @property
    def stored_token_ns(self) -> float:
        """Includes the end of the request, where the answer moves to the shared text."""
        return (self.append_ns + self.finish_ns) / max(1.0, self.answer_tokens)

    @property
    def prompt_token_ns(self) -> float:
        return self.prompt_ns / max(1.0, self.prompt_tokens)

    @property
    def propose_call_ns(self) -> float:
        return self.propose_sum_ns / max(1.0, self.steps)


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


def accepted_of(draft: Sequence[object], truth: Sequence[object]) -> int:
    """How many of the first tokens of a draft equal the text."""
    accepted = 0
    for token, true in zip(draft, truth, strict=False):
        if token != true:
            break
        accepted += 1
    return accepted


def log_loss(probabilities: Sequence[float], accepted: int) -> float:
    """Sum of -log(stated probability of the outcome) over the tokens of a draft."""
    loss = 0.0
    for position, stated in enumerate(probabilities):
        probability = min(max(stated, _LEAST_PROBABILITY), 1 - _LEAST_PROBABILITY)
        loss -= math.log(probability if position < accepted else 1 - probability)
    return loss


def clock_cost() -> int:
    """Median time between two readings of the clock, in nanoseconds.

    A call of ours takes only three or four times as long, so this would be much of its time.
    """
    clock = time.perf_counter_ns
    apart = []
    for _ in range(_CLOCK_READINGS):
        began = clock()
        apart.append(clock() - began)
    return int(np.median(apart))


def replay(subject: Subject, requests: Sequence[Request]) -> tuple[Figures, list[int]]:
    """Replay requests one after the other; the first token of each answer is the prefill's.

    Returns:
        Sums, and the nanoseconds of each call that drafts.
    """
    figures, propose_ns, cost = Figures(), list[int](), clock_cost()
    for number, request in enumerate(requests):
        figures += _replay_one(subject, f"r{number}", request, propose_ns, cost)
    return figures, propose_ns


def _replay_one(
    subject: Subject, name: str, request: Request, propose_ns: list[int], cost: int
) -> Figures:
    clock = time.perf_counter_ns
    text = np.concatenate([request.prompt, request.answer])
    answer: list[int] = request.answer.tolist()
    found = Figures(requests=1, prompt_tokens=len(request.prompt), answer_tokens=len(answer))
    began = clock()
    subject.start(name, request.prompt)
    found.prompt_ns += clock() - began - cost
    new = answer[:1]
    at = 1
    while True:
        began = clock()
        subject.append(name, new)
        found.append_ns += clock() - began - cost
        if at >= len(answer):
            break
        began = clock()
        draft, tokens = subject.propose(name, text, len(request.prompt) + at)
        propose_ns.append(clock() - began - cost)
        found.propose_sum_ns += propose_ns[-1]
        accepted = accepted_of(tokens, answer[at : at + len(tokens)])
        stated, raw = subject.claims(draft)
        found.stated_loss += log_loss(stated, accepted)
        found.raw_loss += log_loss(raw, accepted)
        found.steps += 1
        found.accepted += accepted
        found.drafted += len(tokens)
        new = answer[at : at + accepted + 1]
        at += accepted + 1
    began = clock()
    subject.finish(name)
    found.finish_ns += clock() - began - cost
    return found
