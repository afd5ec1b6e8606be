"""What a fake worker remembers (requests, counters) and what a test may change while it runs."""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tests.fakes.script import Script

DEFAULT_MODEL = "fake-model"

Tokenizing = Literal["works", "fails", "hangs", "garbled", "odd", "drops"]
"""What `/tokenize` answers: ids, 500, nothing ever, no JSON, no ids; or it closes."""


Reporting = Literal["works", "fails", "hangs", "garbled", "odd"]
"""What `/speculation` answers: a report, 500, nothing ever, no JSON, no report."""


@dataclass(slots=True, eq=False)
class RecordedRequest:
    """One request as it arrived, and what became of it.

    Attributes:
        headers: Names in lower case; the last one wins where a name repeats.
        received_at: Monotonic seconds when the request was whole.
        chunks_sent: Content chunks handed to the socket.
        finished: We sent all we wanted to send.
        aborted: The peer went away before that.
        aborted_at: Monotonic seconds when we noticed.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    received_at: float
    chunks_sent: int = 0
    finished: bool = False
    aborted: bool = False
    aborted_at: float | None = None

    def json(self) -> dict[str, Any]:
        """The body as a JSON object."""
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value


class StateChange(BaseModel):
    """What a test may set on a running worker; fields left out stay as they are.

    Attributes:
        models: Names served.
        max_model_len: Context length reported, and checked against `max_tokens`.
        health_status: Status of `/health`.
        health_delay_seconds: Wait before `/health` answers.
        fail_next_connections: Accept and reset so many connections.
        stall: Stop all answers that are not finished, and the iteration counter with them.
        engine_idle: The engine is done with every answer that is still open, as it is when readers
            are slow: only new requests move the iteration counter.
        drop_next_answers: Close so many requests that generate without a byte.
        tokenizing: What `/tokenize` does.
        reporting: What `/speculation` does.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    models: list[str] | None = None
    max_model_len: Annotated[int, Field(ge=1)] | None = None
    health_status: Annotated[int, Field(ge=200, le=599)] | None = None
    health_delay_seconds: Annotated[float, Field(ge=0.0, le=600.0)] | None = None
    fail_next_connections: Annotated[int, Field(ge=0)] | None = None
    stall: bool | None = None
    engine_idle: bool | None = None
    drop_next_answers: Annotated[int, Field(ge=0)] | None = None
    tokenizing: Tokenizing | None = None
    reporting: Reporting | None = None


@dataclass(slots=True)
class Counters:
    """What `/metrics` counts."""

    iterations: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    finished: int = 0
    aborted: int = 0

    def count_finished(self, script: Script) -> None:
        """Count an answer that went out whole; its tokens were counted as they went."""
        self.finished += 1
        self.prompt_tokens += script.prompt_tokens
        self.drafted_tokens += script.drafted
        self.accepted_tokens += script.accepted


@dataclass(slots=True)
class WorkerState:
    """The changeable part of a fake worker; survives a restart of its socket.

    Attributes:
        script: Played for every request instead of its own.
        paths: Requests so far, by path.
        head_commands: Bodies of `POST /heads` so far.
        head_outcome: What has become of all of them.
        dtype: What `/speculation` says of it; None: nothing.
        is_plain: It is plain vLLM, which sends no trace.
    """

    models: list[str] = field(default_factory=lambda: [DEFAULT_MODEL])
    max_model_len: int = 8192
    health_status: int = 200
    health_delay_seconds: float = 0.0
    fail_next_connections: int = 0
    engine_idle: bool = False
    drop_next_answers: int = 0
    script: Script | None = None
    paths: Counter[str] = field(default_factory=Counter)
    tokenizing: Tokenizing = "works"
    reporting: Reporting = "works"
    head_commands: list[dict[str, Any]] = field(default_factory=list)
    head_outcome: str = "trial"
    dtype: str | None = None
    is_plain: bool = False
    active: int = 0
    counters: Counters = field(default_factory=Counters)
    flowing: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.flowing.set()

    @property
    def stall(self) -> bool:
        """Whether answers and the iteration counter stand still."""
        return not self.flowing.is_set()

    @stall.setter
    def stall(self, value: bool) -> None:
        if value:
            self.flowing.clear()
        else:
            self.flowing.set()

    def apply(self, change: StateChange) -> None:
        """Take over the fields that `change` sets."""
        for name in change.model_fields_set:
            value = getattr(change, name)
            if value is not None:
                setattr(self, name, value)

    def as_json(self) -> dict[str, object]:
        """The settings and the load, for `/_fake/state`."""
        names = StateChange.model_fields
        return {name: getattr(self, name) for name in names} | {"active": self.active}
