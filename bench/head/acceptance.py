"""Acceptance of drafts of a fixed length, from the answers of a worker that always drafts.

A step counts if its draft lies within the answer; a draft that the end of the answer cuts short is
left out. In a step that counts, all `POSITIONS` tokens count as drafted: those that the policy cut,
or did not draft because they were less than 1 % likely, count as rejected. So the ratio is at most
that of a head that always drafts its full length.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.head.plan import POSITIONS

_DRAFTED = 0xFFFF  # source: engine/drafting/origin.py, which writes where a draft is from above it


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Sums over answers.

    Attributes:
        tokens: Of the answers, all steps included.
        steps: Steps that count.
        verified: Draft tokens that were in fact verified in them.
        reached: For each position, steps that accepted its token and all before it.
    """

    requests: int = 0
    tokens: int = 0
    steps: int = 0
    verified: int = 0
    reached: tuple[int, ...] = (0,) * POSITIONS

    def __add__(self, other: "Acceptance") -> "Acceptance":
        return Acceptance(
            self.requests + other.requests,
            self.tokens + other.tokens,
            self.steps + other.steps,
            self.verified + other.verified,
            tuple(mine + more for mine, more in zip(self.reached, other.reached, strict=True)),
        )

    @property
    def ratio(self) -> float | None:
        """Acceptance ratio: accepted tokens over `POSITIONS` a step; None without a step."""
        return sum(self.reached) / (POSITIONS * self.steps) if self.steps else None

    @property
    def length(self) -> float | None:
        """Acceptance length: tokens a step, bonus included."""
        return 1.0 + sum(self.reached) / self.steps if self.steps else None

    @property
    def by_position(self) -> list[float]:
        """Survival at each position: the share of steps that accepted it and all before it."""
        return [count / self.steps for count in self.reached] if self.steps else []

    @property
    def verified_ratio(self) -> float | None:
        """Verified draft tokens over `POSITIONS` a step; 1 if the policy never cut a draft."""
        return self.verified / (POSITIONS * self.steps) if self.steps else None


def acceptance_of(answer: Mapping[str, Any]) -> Acceptance:
    """Read an answer of the OpenAI API with vLLM's per-step figures."""
    found = (answer.get("metrics") or {}).get("speculative_decoding") or {}
    drafted = [code & _DRAFTED for code in found.get("per_step_drafted") or []]
    accepted = found.get("per_step_accepted") or []
    tokens = int(answer["usage"]["completion_tokens"])
    steps = verified = 0
    reached = [0] * POSITIONS
    at = 1  # the prefill step generates the first token and verifies nothing
    for length, right in zip(drafted, accepted, strict=True):
        if tokens - at > POSITIONS:  # the draft and the token behind it
            steps += 1
            verified += length
            for position in range(right):
                reached[position] += 1
        at += right + 1
    # Steps without a draft generate one token each. Their positions are unknown, but the last token
    # of an answer that was cut off has no room for a draft before it.
    plain = max(0, tokens - at)
    if plain and answer["choices"][0]["finish_reason"] == "length":
        plain -= 1
    return Acceptance(1, tokens, steps + plain, verified, tuple(reached))
