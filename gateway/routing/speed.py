"""How fast workers are, learnt from the requests that passed; in seconds and tokens."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TypeVar

K = TypeVar("K", int, str, tuple[str, int])

_READ_SECONDS = 2e-4
_STEP_SECONDS = 0.02
_ANSWER_TOKENS = 256.0
_READ_TOKENS = 512.0
"""Before anything has been seen."""
CROWDING = 1 / 64
"""How much longer a token takes for each other request at the worker, over its time alone."""
_STEP = 0.1
"""Weight of a new observation of a tenant."""
KEEP = 0.98
"""What is left of an observation of a worker after the next."""
PRIOR = 10.0
_FLEET = 0.005
_MOST_TENANTS = 65536
_LEAST_TOKENS = 8
PACES = True


class Rate:
    """Seconds for each token, from sums over the latest observations."""

    __slots__ = ("_seconds", "_tokens", "value")

    def __init__(self, value: float, tokens: float) -> None:
        self.value = value
        self._tokens = PRIOR * tokens * tokens
        self._seconds = value * self._tokens

    def see(self, seconds: float, tokens: float) -> None:
        """`tokens` took `seconds`; many tokens say more than few."""
        self._seconds = KEEP * self._seconds + seconds * tokens
        self._tokens = KEEP * self._tokens + tokens * tokens
        self.value = self._seconds / self._tokens


@dataclass(slots=True)
class Speed:
    """One worker.

    Attributes:
        read: Time to the first token, for each token that is to be read before it.
        step: Time of each step of an answer, were it alone.
    """

    read: Rate
    step: Rate


class Speeds:
    """What is learnt of all workers and tenants.

    Attributes:
        read_tokens: Tokens of a request that are to be read; mean of the latest.
        answer_tokens: Likewise, of its answer.
    """

    def __init__(self) -> None:
        self.read_tokens = _READ_TOKENS
        self.answer_tokens = _ANSWER_TOKENS
        self._read_seconds = _READ_SECONDS
        self._step_seconds = _STEP_SECONDS
        self._answers: OrderedDict[str, float] = OrderedDict()
        self._yields: OrderedDict[tuple[str, int], float] = OrderedDict()

    def new(self) -> Speed:
        """The speed of a worker that nothing is known of: that of the others."""
        return Speed(
            Rate(self._read_seconds, self.read_tokens),
            Rate(self._step_seconds, self.answer_tokens),
        )

    def expected_answer(self, tenant: str) -> float:
        """Tokens of a tenant's answer."""
        return self._answers.get(tenant, self.answer_tokens)

    def yield_of(self, tenant: str, worker: int) -> float:
        """Tokens of a step for a tenant's request on a worker: 1, and what drafts add."""
        found = self._yields.get((tenant, worker)) if PACES else None
        return self._yields.get((tenant, -1), 1.0) if found is None else found

    def saw_first(self, speed: Speed, seconds: float, tokens: float) -> None:
        """A first token came `seconds` after it was asked for, with `tokens` to read before it."""
        speed.read.see(seconds, tokens)
        self._read_seconds += _FLEET * (speed.read.value - self._read_seconds)

    def saw_answer(self, tenant: str, worker: int, *, tokens: int, steps: float) -> None:
        """An answer had `tokens`, which took `steps`."""
        self.answer_tokens += _FLEET * (tokens - self.answer_tokens)
        _learn(self._answers, tenant, float(tokens))
        if tokens >= _LEAST_TOKENS and steps > 0:
            _learn(self._yields, (tenant, worker), tokens / steps)
            _learn(self._yields, (tenant, -1), tokens / steps)

    def saw_steps(self, speed: Speed, seconds: float, steps: float, crowd: float) -> None:
        """A request's `steps` after its first took `seconds`, among `crowd` other requests."""
        speed.step.see(seconds / (1 + CROWDING * crowd), steps)
        self._step_seconds += _FLEET * (speed.step.value - self._step_seconds)


def _learn(table: "OrderedDict[K, float]", key: K, sample: float) -> None:
    known = table.get(key)
    table[key] = sample if known is None else known + _STEP * (sample - known)
    table.move_to_end(key)
    if len(table) > _MOST_TENANTS:
        table.popitem(last=False)
