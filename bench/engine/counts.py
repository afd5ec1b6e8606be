"""Counts of a workload on a worker, read from answers and metrics."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.drafting import SOURCE_NAMES, Origin

PLAIN = "plain"
UNNAMED = "vllm"
"""Drafts of a worker that names no source: vLLM's own."""

_OWN_TIME = re.compile(
    r'^engine_spec_step_seconds_(sum|count)\{[^}]*phase="draft_cpu"[^}]*\} (\S+)$', re.MULTILINE
)
_DECODE_TIME = re.compile(r"^vllm:request_decode_time_seconds_sum\{[^}]*\} (\S+)$", re.MULTILINE)
_GENERATED = re.compile(r"^vllm:generation_tokens_total\{[^}]*\} (\S+)$", re.MULTILINE)
_FALLBACKS = re.compile(r"^engine_spec_fallbacks_total\{[^}]*\} (\S+)$", re.MULTILINE)
_RUNNING = re.compile(r"^vllm:num_requests_(?:running|waiting)\{[^}]*\} (\S+)$", re.MULTILINE)


@dataclass(slots=True)
class Counts:
    """Sums over answers.

    Attributes:
        seconds: From the first request to the last answer.
        decode_seconds: From a request's first token to its last, summed over requests.
        spec_steps: Steps of a request that verified a draft.
        steps: Steps of a request that generated tokens, by the source that drafted first.
        drafted, accepted: Draft tokens by source.
        own_seconds, own_steps: CPU time of our own code, and in how many steps of the whole batch.
    """

    requests: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    seconds: float = 0.0
    decode_seconds: float = 0.0
    spec_steps: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    drafted: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    own_seconds: float = 0.0
    own_steps: float = 0.0

    def take(self, answer: Mapping[str, Any]) -> None:
        """Add an answer of the OpenAI API."""
        self.requests += 1
        tokens = int(answer["usage"]["completion_tokens"])
        self.tokens += tokens
        self.prompt_tokens += int(answer["usage"]["prompt_tokens"])
        found = (answer.get("metrics") or {}).get("speculative_decoding") or {}
        drafted = found.get("per_step_drafted") or []
        accepted = found.get("per_step_accepted") or []
        self.spec_steps += len(drafted)
        for code, count in zip(drafted, accepted, strict=True):
            self._take_step(code, count)
        # Each step generates one token more than it accepts; the last one may be cut short.
        self.steps[PLAIN] += max(0, tokens - sum(accepted) - len(drafted))

    def _take_step(self, code: int, accepted: int) -> None:
        origin, drafted = Origin.decode(code)
        self.steps[SOURCE_NAMES.get(origin.first, UNNAMED)] += 1
        for source, _, count in origin.split(drafted):
            self.drafted[SOURCE_NAMES.get(source, UNNAMED)] += count
        for source, _, count in origin.split(accepted):
            self.accepted[SOURCE_NAMES.get(source, UNNAMED)] += count

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds

    @property
    def decoded_per_second(self) -> float:
        """Tokens a second of one request while it decodes, without its prompt and first token."""
        return (self.tokens - self.requests) / self.decode_seconds

    @property
    def length(self) -> float | None:
        """Acceptance length: tokens a step that verified a draft, bonus included."""
        if not self.spec_steps:
            return None
        return 1.0 + self.accepted.total() / self.spec_steps

    @property
    def ratio(self) -> float | None:
        """Acceptance ratio: accepted tokens over drafted ones."""
        return acceptance_ratio(self.accepted.total(), self.drafted.total())

    @property
    def own_us_per_step(self) -> float | None:
        """Our own code's CPU time a step of the batch, in microseconds."""
        return 1e6 * self.own_seconds / self.own_steps if self.own_steps else None


def acceptance_ratio(accepted: int, drafted: int) -> float | None:
    """None where nothing was drafted."""
    return accepted / drafted if drafted else None


def pooled(parts: Sequence[Counts]) -> Counts:
    """Add up rounds, or workloads."""
    total = Counts()
    for counts in parts:
        total.requests += counts.requests
        total.tokens += counts.tokens
        total.prompt_tokens += counts.prompt_tokens
        total.seconds += counts.seconds
        total.decode_seconds += counts.decode_seconds
        total.spec_steps += counts.spec_steps
        total.steps += counts.steps
        total.drafted += counts.drafted
        total.accepted += counts.accepted
        total.own_seconds += counts.own_seconds
        total.own_steps += counts.own_steps
    return total


def own_time(metrics: str) -> tuple[float, float]:
    """Read our own code's CPU time so far, in seconds, and in how many steps.

    Args:
        metrics: A worker's `/metrics`; zeros where it has no such histogram.
    """
    found = {"sum": 0.0, "count": 0.0}
    for part, value in _OWN_TIME.findall(metrics):
        found[part] += float(value)
    return found["sum"], found["count"]


def decode_time(metrics: str) -> float:
    """Read how long requests have decoded so far, in seconds, from a worker's `/metrics`."""
    return sum(float(value) for value in _DECODE_TIME.findall(metrics))


def generated_tokens(metrics: str) -> int:
    """Read how many tokens were generated so far, also for requests that run."""
    return sum(int(float(value)) for value in _GENERATED.findall(metrics))


def fallbacks(metrics: str) -> int:
    """Read how often speculation failed so far; zero where a worker does not count that."""
    return sum(int(float(value)) for value in _FALLBACKS.findall(metrics))


def running_requests(metrics: str) -> int:
    """Read how many requests run or wait."""
    return sum(int(float(value)) for value in _RUNNING.findall(metrics))
