"""Small types that several packages share; imports no other module of this package."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Literal, NewType, Protocol

RequestId = NewType("RequestId", str)
WorkerId = NewType("WorkerId", str)
Headers = Sequence[tuple[bytes, bytes]]
"""Raw HTTP headers: lower-case names, in order."""

PacingMode = Literal["smooth", "private", "off"]
"""How a stream is sent: evenly, in packets of fixed size and time, or as it arrives."""

Outcome = Literal[
    "completed",  # the worker's normal end was relayed to the client
    "caller_error",  # answered with a 4xx
    "rejected",  # no capacity: limit, queue, drain
    "upstream_error",  # the worker failed: 5xx, or an error event in the stream
    "internal_error",  # the gateway failed
    "cancelled",  # the client disconnected
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
    """The speculation metrics of one request, from vLLM's `metrics.speculative_decoding`."""

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


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What routing expects of a request at a worker, or what then was seen.

    Attributes:
        seconds: From its sending to its end.
        cached_tokens: Of its prompt, in the worker's cache.
    """

    seconds: float
    cached_tokens: float


class Trace(Protocol):
    """The spans of one request."""

    @property
    def trace_id(self) -> str | None:
        """The id that all of them share; None if the request is not traced."""

    def queued(self, seconds: float) -> None:
        """The request has just left the queue, where it waited for `seconds`."""

    def attempt(self, worker: WorkerId) -> AbstractContextManager[Mapping[str, str]]:
        """An attempt on a worker, for the block; yields headers for the worker."""

    def end(self, record: "RequestRecord") -> None:
        """The request has ended."""


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
"""The trace of a request that is not traced; it does nothing."""


@dataclass(slots=True)
class RequestRecord:
    """The facts about one request: filled in while it is served, read when it has ended.

    The `Observe` middleware owns it; `serving` and the routes write to it.
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
    """Why the request failed, as in `GatewayError.reason`."""
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
        """The request failed, or was refused or cancelled."""
        self.status, self.outcome = status, outcome
        self.error_code, self.reason = error_code, reason


class Sink(Protocol):
    """The client's side of one HTTP exchange, to which an answer is written."""

    @property
    def started(self) -> bool:
        """Whether status line and headers were sent."""

    async def start(self, status: int, headers: Headers) -> None:
        """Send status line and headers; once."""

    async def write(self, data: bytes) -> None:
        """Send body bytes; waits while the client's socket is full (back-pressure)."""

    def write_now(self, data: bytes) -> bool:
        """Send body bytes if the client's socket has room for them; else False."""

    async def end(self, data: bytes = b"") -> None:
        """Send the last body bytes and finish; once."""

    def abort(self) -> None:
        """Close the client's connection at once; unsent bytes are lost."""
