"""A request and the worker that was chosen for it."""

from dataclasses import dataclass
from typing import Literal

from gateway.routing.place import Place
from gateway.routing.prefix import Prefix
from gateway.types import WorkerId

Reason = Literal["cached", "hashed", "idle", "least_loaded"]
"""Why a worker: it has read most of the prompt; the conversation hashes to it; it has least to do;
or the rule `least_loaded` chose it."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What is known of a request.

    Attributes:
        tenant: Whose it is.
        prefix: Its prompt.
        most_tokens: Longest answer; None: no limit.
    """

    tenant: str
    prefix: Prefix
    most_tokens: int | None = None


NO_ASK = Ask("", Prefix((), (), 0, 0))
"""Nothing is known."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker told of itself.

    Attributes:
        requests: That it runs or that wait there, of all gateways.
        cache_tokens: Size of its KV cache; None: it did not say.
    """

    requests: int
    cache_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """What the worker counted for a request."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    accepted_tokens: int = 0


@dataclass(slots=True)
class Route:
    """A choice, and what became of it; only the router changes it.

    Attributes:
        worker: Where the request goes.
        reason: Why.
        expected_seconds: From now to its end.
        cached_tokens: Expected in the worker's cache.
        slot: The router's number of the worker.
        place: What the router knows of it; None if it knows nothing.
        block: The last block of the prompt that the worker is known to hold; -1: none.
        rank: Of the worker among those that hash to a conversation that is unknown here; else -1.
        sent: When it was sent.
        used: When `block` was last used before.
        read_tokens: Expected to be read.
        ahead_tokens: Those, and all that were to be read there before.
        crowd: Other requests there at its first token.
        first: When its first token came.
    """

    ask: Ask
    worker: WorkerId
    reason: Reason
    expected_seconds: float = 0.0
    cached_tokens: float = 0.0
    slot: int = -1
    place: Place | None = None
    block: int = -1
    rank: int = -1
    sent: float = 0.0
    used: float = 0.0
    read_tokens: float = 0.0
    ahead_tokens: float = 0.0
    crowd: float = 0.0
    first: float | None = None
