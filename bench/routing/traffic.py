"""Traffic: conversations of skewed tenants, in an open loop. Every rule gets the same.

Lengths follow the recorded agent sessions and chats in the data folder: an agent's session opens
with a long prompt that its tenant's other sessions share, and grows with each tool result.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import log
from random import Random


@dataclass(frozen=True, slots=True)
class Request:
    """One turn of a conversation.

    Attributes:
        at: When it arrives, in seconds.
        conversation, system: Numbers of the conversation, and of the opening that it shares with
            others; none is used twice.
        system_tokens: Length of that.
        prompt_tokens: Length of the whole prompt.
        gain: Tokens that drafts can add to a step.
        bytes_per_token: Of its text.
    """

    at: float
    tenant: int
    conversation: int
    turn: int
    system: int
    system_tokens: int
    prompt_tokens: int
    answer_tokens: int
    gain: float
    bytes_per_token: float


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of conversation: medians of lengths in tokens, turns, and seconds between turns."""

    system: tuple[int, int]
    first: int
    added: int
    answer: int
    turns: float
    pause_seconds: float


AGENT = Kind(system=(1500, 5000), first=400, added=250, answer=120, turns=12, pause_seconds=3.0)
CHAT = Kind(system=(40, 400), first=60, added=110, answer=380, turns=5, pause_seconds=12.0)
_AGENTS = 0.5
_ZIPF = 1.0
_SPREAD = 0.7
_MOST_PROMPT = 60_000


@dataclass(frozen=True, slots=True)
class _Tenant:
    kind: Kind
    system_tokens: int
    gain: float
    bytes_per_token: float
    answer: float


@dataclass(slots=True)
class _Conversation:
    number: int
    tenant: int
    left: int
    turn: int = 0
    tokens: int = 0


def make_traffic(
    seed: int, *, tenants: int, requests_per_second: float, seconds: float
) -> list[Request]:
    """Requests in order of arrival.

    Conversations start before time 0, so that the first seconds are like all others.
    """
    random = Random(seed)  # a simulation
    every = [_tenant(random) for _ in range(tenants)]
    weights = [1 / (rank + 1) ** _ZIPF for rank in range(tenants)]
    turns = sum(w * t.kind.turns for w, t in zip(weights, every, strict=True)) / sum(weights)
    return list(_play(random, every, weights, requests_per_second / turns, seconds))


def _play(
    random: Random, tenants: list[_Tenant], weights: list[float], per_second: float, seconds: float
) -> Iterator[Request]:
    due: list[tuple[float, int, _Conversation]] = []
    start, number = -60.0, 0
    total = [sum(weights[: end + 1]) for end in range(len(weights))]
    while True:
        if start < seconds and (not due or start <= due[0][0]):
            (name,) = random.choices(range(len(tenants)), cum_weights=total)
            left = max(1, round(random.expovariate(1 / tenants[name].kind.turns)))
            heappush(due, (start, number, _Conversation(number, name, left)))
            start += random.expovariate(per_second)
            number += 1
            continue
        if not due or due[0][0] >= seconds:
            return
        at, order, talk = heappop(due)
        tenant = tenants[talk.tenant]
        kind = tenant.kind
        added = _length(random, kind.first if talk.turn == 0 else kind.added)
        prompt = (talk.tokens or tenant.system_tokens) + added
        answer = _length(random, tenant.answer)
        if at >= 0:
            yield Request(
                at,
                talk.tenant,
                talk.number,
                talk.turn,
                -1 - talk.tenant,
                tenant.system_tokens,
                prompt,
                answer,
                tenant.gain,
                tenant.bytes_per_token,
            )
        talk.turn += 1
        talk.tokens = prompt + answer
        talk.left -= 1
        if talk.left and talk.tokens < _MOST_PROMPT:
            pause = answer * 0.02 + 1.0 + random.expovariate(1 / kind.pause_seconds)
            heappush(due, (at + pause, order, talk))


def _tenant(random: Random) -> _Tenant:
    kind = AGENT if random.random() < _AGENTS else CHAT
    return _Tenant(
        kind,
        random.randint(*kind.system),
        random.uniform(0.5, 2.5),
        random.uniform(3.0, 4.5),
        _length(random, kind.answer),
    )


def _length(random: Random, median: float) -> int:
    return max(2, min(4096, round(random.lognormvariate(log(median), _SPREAD))))
