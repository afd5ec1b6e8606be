"""How much is measured: rounds, requests of a round, and how long answers may get."""

import math
from dataclasses import dataclass

SEED = 20_240_607
KV_GIB = 1
"""Memory for keys and values of each worker; small, so that all workers fit at once."""
CREATIVE_TEMPERATURE = 1.0
TENANT = "bench"


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of a run; those of a round are for each workload and each method. Defaults: a full run.

    With more clients at once there are more requests, so answers and sessions get shorter: by the
    square root of their number.

    Attributes:
        rounds: Each with other prompts.
        prompts: Requests, where they are prompts without a history, at batch 1.
        edits: The same of edits; more of them, as their answers are short and vary in how much is
            copied.
        sessions: Agent sessions at batch 1.
        turns: Most requests of a session at batch 1.
        of_each: Requests, or sessions, of each kind in `mixed` at batch 1.
        answer_tokens: `max_tokens` of a request at batch 1.
        edit_tokens: The same where a recorded edit is longer than that.
        least_tokens: Lower limit of `max_tokens` at every batch.
        mixed_turns: Most requests of a session in `mixed`.
        seconds: After this time no workload is started.
    """

    rounds: int = 3
    prompts: int = 2
    edits: int = 8
    sessions: int = 1
    turns: int = 3
    of_each: int = 1
    answer_tokens: int = 200
    edit_tokens: int = 400
    least_tokens: int = 48
    mixed_turns: int = 1
    seconds: float = math.inf

    def prompts_at(self, batch: int) -> int:
        """Requests of a workload and round: one for each client, or more."""
        return max(batch, self.prompts)

    def edits_at(self, batch: int) -> int:
        """Edits of a round, likewise."""
        return max(batch, self.edits)

    def sessions_at(self, batch: int) -> int:
        """Agent sessions of a round: one for each client."""
        return max(self.sessions, batch)

    def of_each_at(self, batch: int) -> int:
        """Of each of the four kinds in `mixed`: together enough to keep every client busy."""
        return max(self.of_each, -(-batch // 4))

    def turns_at(self, batch: int) -> int:
        """Most requests of a session."""
        return max(1, self.turns // math.isqrt(batch))

    def tokens_at(self, batch: int, *, alone: int) -> int:
        """`max_tokens` of a request that has `alone` at batch 1."""
        return max(self.least_tokens, alone // math.isqrt(batch))


FULL = Plan()
"""About 12 minutes at batch 1, 28 at 1, 4 and 16, with 4 workers on two idle cores (estimated)."""
QUICK = Plan(
    rounds=1,
    prompts=1,
    edits=1,
    turns=2,
    answer_tokens=64,
    edit_tokens=96,
    least_tokens=16,
    seconds=150.0,
)
