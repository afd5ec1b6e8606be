"""How fast workers are, learnt from the streams that passed; all in seconds and tokens."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import TypeVar

_READ_SECONDS = 2e-4
_TOKEN_SECONDS = 0.02
_ANSWER_TOKENS = 256.0
"""Before anything has been seen."""
_STEP = 0.1
"""Weight of a new observation."""
CROWDING = 1 / 48
"""How much longer a token takes for each other request at the worker, as a share of its time alone.
"""
_MOST_PACES = 65536
_LEAST_TOKENS = 8


@dataclass(slots=True)
class Speed:
    """One worker.

    Attributes:
        read_seconds: To the first token, for each token that is to be read before it.
        token_seconds: For each token of an answer, were it alone.
    """

    read_seconds: float = _READ_SECONDS
    token_seconds: float = _TOKEN_SECONDS


K = TypeVar("K", str, tuple[str, int])


class Speeds:
    """What is learnt of all workers and tenants.

    Attributes:
        read_tokens: Tokens that a request had to have read; mean of the latest.
        answer_tokens: Likewise, of its answer.
    """

    def __init__(self) -> None:
        self.read_tokens = 512.0
        self.answer_tokens = _ANSWER_TOKENS
        self._typical = Speed()
        self._answers: OrderedDict[str, float] = OrderedDict()
        self._paces: OrderedDict[tuple[str, int], float] = OrderedDict()

    def new(self) -> Speed:
        """The speed of a worker that nothing is known of: that of the others."""
        return Speed(self._typical.read_seconds, self._typical.token_seconds)

    def expected_answer(self, tenant: str) -> float:
        """Tokens of a tenant's answer."""
        return self._answers.get(tenant, self.answer_tokens)

    def pace(self, tenant: str, worker: int) -> float:
        """Time of a tenant's tokens on a worker, over the time of all tenants' there."""
        found = self._paces.get((tenant, worker))
        return self._paces.get((tenant, -1), 1.0) if found is None else found

    def saw_first(self, speed: Speed, seconds: float, tokens: float) -> None:
        """A first token came `seconds` after it was asked for, with `tokens` to read before it."""
        sample = seconds / max(tokens, 64.0)
        weight = _STEP * min(1.0, tokens / self.read_tokens)
        speed.read_seconds += weight * (sample - speed.read_seconds)
        typical = self._typical
        typical.read_seconds += weight * (sample - typical.read_seconds) / 8

    def saw_answer(
        self, tenant: str, worker: int, speed: Speed, *, tokens: int, seconds: float, crowd: float
    ) -> None:
        """An answer's tokens after its first took `seconds`, among `crowd` other requests."""
        self.answer_tokens += _STEP / 8 * (tokens - self.answer_tokens)
        self._learn(self._answers, tenant, float(tokens))
        if tokens < _LEAST_TOKENS or seconds <= 0:
            return
        sample = seconds / (tokens - 1) / (1 + CROWDING * crowd)
        pace = sample / speed.token_seconds
        self._learn(self._paces, (tenant, worker), pace)
        self._learn(self._paces, (tenant, -1), pace)
        speed.token_seconds += _STEP * (sample - speed.token_seconds)
        typical = self._typical
        typical.token_seconds += _STEP / 8 * (sample - typical.token_seconds)

    @staticmethod
    def _learn(table: "OrderedDict[K, float]", key: "K", sample: float) -> None:
        known = table.get(key)
        table[key] = sample if known is None else known + _STEP * (sample - known)
        table.move_to_end(key)
        if len(table) > _MOST_PACES:
            table.popitem(last=False)
