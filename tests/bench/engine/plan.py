"""How much is measured: rounds, requests of a round, and how long answers may get."""

from dataclasses import dataclass

SEED = 20_240_607
KV_GIB = 1
"""Space for keys and values of each worker: so small that all workers fit into memory at once."""
CREATIVE_TEMPERATURE = 1.0
TENANT = "bench"


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of a run; those of a round are for each workload and each method.

    Attributes:
        rounds: Each with other prompts.
        prompts: Requests of a client, where they are prompts without a history.
        sessions: Agent sessions at batch 1.
        turns: Most requests of a session.
        of_each: Requests, or sessions, of each kind in `mixed` at batch 1.
        most_prompts: Bound on those of all clients, unless there are more clients.
        answer_tokens: `max_tokens` of a request.
        edit_tokens: The same where a recorded edit is longer than that.
        mixed_turns: Most requests of a session in `mixed`.
    """

    rounds: int
    prompts: int
    sessions: int
    turns: int
    of_each: int
    most_prompts: int
    answer_tokens: int
    edit_tokens: int
    mixed_turns: int

    def prompts_at(self, batch: int) -> int:
        """Requests of a workload and round: `prompts` a client, where that is not too long."""
        return max(batch, min(self.prompts * batch, self.most_prompts))

    def sessions_at(self, batch: int) -> int:
        """Agent sessions of a round: one for each client."""
        return max(self.sessions, batch)

    def of_each_at(self, batch: int) -> int:
        """Of each of the four kinds in `mixed`: together enough to keep every client busy."""
        return max(self.of_each, -(-batch // 4))


FULL = Plan(
    rounds=3,
    prompts=3,
    sessions=1,
    turns=5,
    of_each=1,
    most_prompts=8,
    answer_tokens=200,
    edit_tokens=400,
    mixed_turns=2,
)
QUICK = Plan(
    rounds=1,
    prompts=1,
    sessions=1,
    turns=2,
    of_each=1,
    most_prompts=4,
    answer_tokens=64,
    edit_tokens=96,
    mixed_turns=1,
)
