"""A scenario as data: kinds of clients, their arrivals, and the objectives.

A scenario is a YAML file; those in `scenarios/` can be named without their path.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

_FOLDER = Path(__file__).parent / "scenarios"

Kind = Literal["chat", "code", "edit", "session", "document"]
"""What a prompt is: a question, a function to write, code to change, an agent's turns, a text."""

Process = Literal["poisson", "constant"]


class ScenarioError(Exception):
    """The scenario cannot be used; the message says why."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Range(_Part):
    """A number is drawn evenly from `low` to `high`, both included."""

    low: Annotated[float, Field(ge=0)]
    high: Annotated[float, Field(ge=0)]

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Stage(_Part):
    """A time of constant rate. Each arrival starts a conversation; a session is one arrival."""

    requests_per_second: Annotated[float, Field(gt=0)]
    seconds: Annotated[float, Field(gt=0)]


class Arrivals(_Part):
    """Arrival times, which do not depend on earlier requests (open loop)."""

    process: Process = "poisson"
    stages: Annotated[tuple[Stage, ...], Field(min_length=1)]


class Objective(_Part):
    """What a request must meet to count for goodput."""

    first_token_ms: Annotated[float, Field(gt=0)]
    per_token_ms: Annotated[float, Field(gt=0)]


class Traffic(_Part):
    """One kind of client in the mix.

    Attributes:
        name: Of the figures.
        weight: Share of the arrivals, against the other weights.
        prompts: Kind of its prompts.
        prompt_words: Length of a generated prompt; recorded ones keep their length.
        most_prompt_characters: Limit of a recorded prompt; longer ones are skipped, sessions cut.
        output_tokens: What `max_tokens` is drawn from.
        turns: Of a session, at most.
        think_seconds: From the end of one turn's answer to the next turn.
        stream: Whether it asks for a stream.
        abort_after_seconds: It leaves so long after its request; None: it stays.
        read_bytes_per_second: It reads no faster; None: as fast as it can.
        headers: Sent with its requests.
        body: More fields of the request.
    """

    name: str
    weight: Annotated[float, Field(gt=0)] = 1.0
    prompts: Kind
    prompt_words: Range = Range(low=20, high=60)
    most_prompt_characters: Annotated[int, Field(gt=0)] = 12_000
    output_tokens: Range
    turns: Annotated[int, Field(ge=1)] = 1
    think_seconds: Range = Range(low=0.5, high=2.0)
    stream: bool = True
    abort_after_seconds: Range | None = None
    read_bytes_per_second: Annotated[int, Field(gt=0)] | None = None
    headers: dict[str, str] = {}
    body: dict[str, JsonValue] = {}

    @property
    def is_measured(self) -> bool:
        """Whether its latencies count: it reads at full speed, to the end."""
        return self.abort_after_seconds is None and self.read_bytes_per_second is None


class Scenario(_Part):
    """A whole scenario."""

    about: str
    arrivals: Arrivals
    objective: Objective
    mix: Annotated[tuple[Traffic, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if len({traffic.name for traffic in self.mix}) < len(self.mix):
            raise ValueError("two in the mix have the same name")
        return self

    def with_arrivals(
        self,
        *,
        process: Process | None = None,
        requests_per_second: float | None = None,
        seconds: float | None = None,
    ) -> Self:
        """A copy with other arrivals; a given value replaces that of every stage.

        With a rate all stages would be equal, so only the first one is kept.
        """
        stages = [
            Stage(
                requests_per_second=requests_per_second or stage.requests_per_second,
                seconds=seconds or stage.seconds,
            )
            for stage in self.arrivals.stages
        ]
        if requests_per_second is not None:
            stages = stages[:1]
        arrivals = Arrivals(process=process or self.arrivals.process, stages=tuple(stages))
        return self.model_copy(update={"arrivals": arrivals})


def load_scenario(name: str) -> Scenario:
    """Read a scenario.

    Args:
        name: One of `scenario_names`, or the path of a YAML file.

    Raises:
        ScenarioError: There is none, or it is wrong; one line for each thing.
    """
    path = _FOLDER / f"{name}.yaml" if name in scenario_names() else Path(name)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        known = ", ".join(scenario_names())
        raise ScenarioError(f"{name}: neither a file nor one of {known}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ScenarioError(f"{path}: is not YAML: {error}") from error
    try:
        return Scenario.model_validate(content)
    except ValidationError as error:
        lines = [
            f"{path}: {'.'.join(str(part) for part in found['loc'])}: {found['msg']}"
            for found in error.errors()
        ]
        raise ScenarioError("\n".join(lines)) from error


def scenario_names() -> list[str]:
    """The scenarios that come with this package."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))
