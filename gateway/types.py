"""Small frozen values shared by rooms; imports nothing of ours."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Literal, NewType, Protocol

RequestId = NewType("RequestId", str)
WorkerId = NewType("WorkerId", str)
Headers = Sequence[tuple[bytes, bytes]]
"""Raw HTTP headers: lower-case names, in order."""

PacingMode = Literal["smooth", "private", "off"]
"""When the pieces of a stream leave: evenly, on a fixed clock at fixed sizes, or as they come."""

Outcome = Literal[
    "completed",  # the worker's normal end was relayed to the client
    "caller_error",  # answered with a 4xx
    "rejected",  # no capacity: limit, queue, drain
    "upstream_error",  # the worker failed: 5xx, or an error event in the stream
    "internal_error",  # we failed
    "cancelled",  # the client went away first
]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a worker reported for one request."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class SourceCount:
    """Draft tokens of one source in one request: proposed, and accepted by the target model."""

    drafted: int
    accepted: int

    @property
    def ratio(self) -> float | None:
        """Accepted / drafted, 0-1; None when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What speculation did for one request, from vLLM's `metrics.speculative_decoding`."""

    steps: int
    """Target steps that verified a draft."""
    length: float | None
    """Tokens for each of those steps, bonus token included; None when there was none."""
    sources: Mapping[str, SourceCount]
    """The sources that drafted."""
    predicted: int | None = None
    """Accepted tokens that followed the request's own prediction; part of `suffix`. None when the
    worker did not say."""

    @property
    def drafted(self) -> int:
        """Draft tokens of all sources."""
        return sum(count.drafted for count in self.sources.values())

    @property
    def accepted(self) -> int:
        """Accepted draft tokens of all sources."""
        return sum(count.accepted for count in self.sources.values())


class Trace(Protocol):
    """The spans of one request."""

    @property
    def trace_id(self) -> str | None:
        """What all of them share; None when there are none."""

    def queued(self, seconds: float) -> None:
        """It has just come out of the queue, after so long."""

    def attempt(self, worker: WorkerId) -> AbstractContextManager[Mapping[str, str]]:
        """A try on a worker, as long as the block; yields headers for the worker."""

    def end(self, record: "RequestRecord") -> None:
        """It has truly ended."""


class _Untraced:
    trace_id = None
    _nothing = nullcontext[Mapping[str, str]]({})

    def queued(self, seconds: float) -> None:
        pass

    def attempt(self, worker: WorkerId) -> AbstractContextManager[Mapping[str, str]]:
        return self._nothing

    def end(self, record: "RequestRecord") -> None:
        pass


UNTRACED: Trace = _Untraced()
"""Of requests that are not traced: does nothing."""


@dataclass(slots=True)
class RequestRecord:
    """What became of one request; filled in on the way, read once at its true end.

    Owned by the ASGI middleware that made it; `serving` and the routes write to it.
    Times are `time.monotonic` seconds.
    """

    request_id: RequestId
    endpoint: str
    method: str
    started_seconds: float
    model: str = "unknown"
    tenant: str | None = None
    key_id: str | None = None
    worker: WorkerId | None = None
    stream: bool = False
    status: int = 0
    outcome: Outcome | None = None
    error_code: str | None = None
    reason: str | None = None
    """The gateway's own word for why it refused or failed the request."""
    stream_end: Literal["completed", "error_event", "cancelled"] | None = None
    """How the stream ended, if one began."""
    attempts: int = 0
    queued_seconds: float = 0.0
    first_token_seconds: float | None = None
    usage: Usage | None = None
    acceptance: Acceptance | None = None
    response_headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Headers that every answer to this request carries, errors included."""
    trace: Trace = UNTRACED

    def note_failure(
        self, status: int, outcome: Outcome, error_code: str | None, reason: str
    ) -> None:
        """The request ended otherwise than hoped for."""
        self.status, self.outcome = status, outcome
        self.error_code, self.reason = error_code, reason


class Sink(Protocol):
    """Where an answer goes: the client's side of one HTTP exchange."""

    @property
    def started(self) -> bool:
        """Whether status line and headers have left."""

    async def start(self, status: int, headers: Headers) -> None:
        """Send status line and headers; once."""

    async def write(self, data: bytes) -> None:
        """Send body bytes; returns when the client's socket has taken them (back-pressure)."""

    def write_now(self, data: bytes) -> bool:
        """Send body bytes if the client's socket has room for them; else False."""

    async def end(self, data: bytes = b"") -> None:
        """Send the last body bytes and finish; once."""
