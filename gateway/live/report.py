"""Reads a worker's `GET /speculation`: a fixed part of it, in bounds; pure."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from gateway.errors import UpstreamError

MOST_BYTES = 1 << 20
"""Of a report; one engine's has some 5 kB."""

_Word = Annotated[str, Field(max_length=200)]
_Sentence = Annotated[str, Field(max_length=500)]
_Number = FiniteFloat | None
_Count = Annotated[int, Field(ge=0, le=2**53)]
_Curve = Annotated[list[tuple[_Count, FiniteFloat]], Field(max_length=1000)] | None


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Drafted(_Part):
    """Draft tokens since the worker started: verified, and accepted."""

    drafted: _Count
    accepted: _Count


class SourceReport(_Part):
    """Whether a source drafts and why, and what it did in the last minute."""

    name: _Word
    state: _Word
    verdict: _Sentence
    drafted_per_second: _Number = None
    acceptance: _Number = None


class HeadReport(_Part):
    """The draft head that serves."""

    version: _Word
    name: _Word


class TrialReport(HeadReport):
    """The head beside it; see docs/heads.md."""

    role: _Word
    pairs: _Count
    most_pairs: _Count
    worth: FiniteFloat


class Launches(_Part):
    """With async scheduling: steps that waited for the tokens before them, and others."""

    waited: _Count
    ahead: _Count


class _Gate(_Part):
    price: _Number = None
    trust: _Number = None
    goodput_tokens_per_second: _Number = None
    measured_over_expected: _Number = None
    step_cost_ms: _Curve = None
    pass_cost_ms: _Curve = None
    verification_cost_ms: _Curve = None
    recent_decisions: Annotated[dict[_Word, _Count], Field(max_length=32)] = {}
    steps: Launches | Annotated[dict[str, int], Field(max_length=0)] = {}


class _Heads(_Part):
    serving: HeadReport | None = None
    beside: TrialReport | None = None


class _Engine(_Part):
    engine: _Count
    gate: _Gate = _Gate()
    acceptance: Annotated[dict[_Word, Drafted], Field(max_length=32)] = {}
    heads: _Heads = _Heads()
    sources: Annotated[list[SourceReport], Field(max_length=32)] = []


class _Report(_Part):
    engines: Annotated[list[_Engine], Field(max_length=256)]


class EngineReport(_Part):
    """One engine of a worker, as `GET /live` shows it. Times are milliseconds.

    Attributes:
        decisions: Steps of the last minute, by decision.
        drafts: Since the engine started, by source; not shown.
    """

    engine: int
    price: float | None
    trust: float | None
    goodput_tokens_per_second: float | None
    measured_over_expected: float | None
    step_ms: list[tuple[int, float]] | None
    pass_ms: list[tuple[int, float]] | None
    verification_ms: list[tuple[int, float]] | None
    decisions: dict[str, int]
    launch: Launches | None
    sources: list[SourceReport]
    head: HeadReport | None
    trial: TrialReport | None
    drafts: Annotated[dict[str, Drafted], Field(exclude=True)] = {}


def read_report(body: bytes) -> tuple[EngineReport, ...]:
    """Read the engines of a report; what else is in it is ignored.

    Raises:
        UpstreamError: It is too large, or not what our workers send.
    """
    if len(body) > MOST_BYTES:
        raise UpstreamError("The engine's report on its drafts is too large.")
    try:
        report = _Report.model_validate_json(body)
    except ValidationError as error:
        raise UpstreamError("The engine's report on its drafts cannot be read.") from error
    return tuple(_read_engine(engine) for engine in report.engines)


def _read_engine(engine: _Engine) -> EngineReport:
    gate, heads = engine.gate, engine.heads
    return EngineReport(
        engine=engine.engine,
        price=gate.price,
        trust=gate.trust,
        goodput_tokens_per_second=gate.goodput_tokens_per_second,
        measured_over_expected=gate.measured_over_expected,
        step_ms=gate.step_cost_ms,
        pass_ms=gate.pass_cost_ms,
        verification_ms=gate.verification_cost_ms,
        decisions=gate.recent_decisions,
        launch=gate.steps if isinstance(gate.steps, Launches) else None,
        sources=engine.sources,
        head=heads.serving,
        trial=heads.beside,
        drafts=engine.acceptance,
    )
