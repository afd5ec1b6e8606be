"""How fast workers are and how long answers get, learnt from the requests that passed."""

from collections import OrderedDict
from dataclasses import dataclass

_READ_SECONDS = 2e-4
_STEP_SECONDS = 0.02
_READ_TOKENS = 512.0
_ANSWER_TOKENS = 256.0
"""Before anything has been seen."""
_KEEP = 0.995
_PRIOR = 100.0
"""An observation of a worker counts half after 140 others; at the start, as one of 100. With 10 and
35, chance in what workers were sent looks like their speed (adr/0047)."""
_TENANT_STEP = 0.1
_FLEET_STEP = 0.005
_MOST_TENANTS = 65536
CROWDING = 1 / 64
"""How much longer a step takes for each other request there, over its time alone. Half and twice
this make little difference (adr/0047)."""


class Rate:
    """Seconds for each token (or step): least squares over the latest observations.

    So an observation of many tokens says more than one of few, which has fixed times in it.
    """

    __slots__ = ("_seconds", "_tokens", "value")

    def __init__(self, value: float) -> None:
        self.value = value
        self._seconds = self._tokens = 0.0

    def see(self, seconds: float, tokens: float, *, typical: float) -> None:
        """`tokens` took `seconds`; `typical` tokens have been usual so far."""
        if not self._tokens:
            self._tokens = _PRIOR * typical * typical
            self._seconds = self.value * self._tokens
        self._seconds = _KEEP * self._seconds + seconds * tokens
        self._tokens = _KEEP * self._tokens + tokens * tokens
        self.value = self._seconds / self._tokens


@dataclass(slots=True)
class Speed:
    """One worker.

    Attributes:
        read: Time to the first token, for each prompt token that is read until then.
        step: Time of a step, were the request alone.
    """

    read: Rate
    step: Rate


@dataclass(slots=True)
class _Tenant:
    answer_tokens: float
    step_tokens: float


class Speeds:
    """What is learnt of all workers and tenants.

    Attributes:
        read_tokens: Tokens that are read before a first token; mean of the latest.
        answer_tokens: Tokens of an answer, likewise.
        step_tokens: Tokens of a step, likewise: 1, and what drafts add.
    """

    def __init__(self) -> None:
        self.read_tokens = _READ_TOKENS
        self.answer_tokens = _ANSWER_TOKENS
        self.step_tokens = 1.0
        self._read_seconds = _READ_SECONDS
        self._step_seconds = _STEP_SECONDS
        self._reads = 0
        self._answers = 0
        self._tenants: OrderedDict[str, _Tenant] = OrderedDict()

    def new(self) -> Speed:
        """The speed of a worker that nothing is known of: that of the others."""
        return Speed(Rate(self._read_seconds), Rate(self._step_seconds))

    def expected_steps(self, tenant: str, most_tokens: int | None) -> float:
        """Steps of a tenant's next answer, of at most `most_tokens`."""
        known = self._tenants.get(tenant)
        tokens = self.answer_tokens if known is None else known.answer_tokens
        if most_tokens is not None and most_tokens < tokens:
            tokens = most_tokens
        return tokens / (self.step_tokens if known is None else known.step_tokens)

    def saw_read(self, speed: Speed, seconds: float, *, ahead_tokens: float) -> None:
        """A first token came after `seconds`, with `ahead_tokens` to read until then."""
        self._reads += 1
        self.read_tokens += _share(self._reads) * (ahead_tokens - self.read_tokens)
        speed.read.see(seconds, ahead_tokens, typical=self.read_tokens)
        self._read_seconds += _FLEET_STEP * (speed.read.value - self._read_seconds)

    def saw_steps(self, speed: Speed, seconds: float, *, steps: float, crowd: float) -> None:
        """A request's `steps` took `seconds`, among `crowd` other requests."""
        typical = self.answer_tokens / self.step_tokens
        speed.step.see(seconds / (1 + CROWDING * crowd), steps, typical=typical)
        self._step_seconds += _FLEET_STEP * (speed.step.value - self._step_seconds)

    def saw_answer(self, tenant: str, *, tokens: int, steps: float) -> None:
        """An answer had `tokens`, of `steps`."""
        step_tokens = tokens / steps
        self._answers += 1
        share = _share(self._answers)
        self.answer_tokens += share * (tokens - self.answer_tokens)
        self.step_tokens += share * (step_tokens - self.step_tokens)
        known = self._tenants.pop(tenant, None)
        if known is None:
            known = _Tenant(tokens, step_tokens)
        known.answer_tokens += _TENANT_STEP * (tokens - known.answer_tokens)
        known.step_tokens += _TENANT_STEP * (step_tokens - known.step_tokens)
        self._tenants[tenant] = known
        if len(self._tenants) > _MOST_TENANTS:
            self._tenants.popitem(last=False)


def _share(count: int) -> float:
    """What the latest of `count` observations is worth in their mean: at first all the same."""
    return max(_FLEET_STEP, 1 / count)
