"""How much is measured: concurrencies, draft lengths, rounds, and how long answers get."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

MOST_CLIENTS = 32
"""Also the `max_num_seqs` of every worker: no request waits for a seat."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of a run; the defaults are a full run.

    Attributes:
        clients: Numbers of concurrent clients, which wait for each answer before the next request.
        draft_tokens: The fixed settings: most tokens of a draft.
        rounds: Each with other prompts, which every setting gets.
        answer_tokens: `max_tokens` of a request with one client.
        least_tokens: Lower limit of `max_tokens` with every number of clients.
        seconds: After this time no workload is started.
    """

    clients: Sequence[int] = (1, 2, 4, 8, 16, 32)
    draft_tokens: Sequence[int] = (1, 2, 4, 8, 16)
    rounds: int = 3
    answer_tokens: int = 256
    least_tokens: int = 128
    seconds: float = 2_400.0

    def tokens_at(self, clients: int) -> int:
        """`max_tokens`; with more clients there are more requests, so answers get shorter."""
        return max(self.least_tokens, self.answer_tokens // math.isqrt(clients))


FULL = Plan()
QUICK = Plan(
    clients=(1, 8),
    draft_tokens=(2, 8),
    rounds=1,
    answer_tokens=48,
    least_tokens=24,
    seconds=150.0,
)
