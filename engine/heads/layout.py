"""What all layouts of a stored head have in common: how a file becomes a configuration."""

from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import BaseModel, ValidationError
from torch import Tensor

from engine.errors import HeadFileError
from engine.heads.config import HeadConfig
from engine.heads.stored import StoredWeights

VOCABULARY = "vocabulary.ids"
"""Name of the draft vocabulary's target ids among a head's tensors."""

Model = TypeVar("Model", bound=BaseModel)


class Layout(Protocol):
    """A way to store a head, for one folder.

    Attributes:
        config: The head in our words.
        prefix: What names of weights may begin with.
    """

    config: HeadConfig
    prefix: str

    def read(self, stored: StoredWeights) -> dict[str, Tensor]:
        """Return the weights under the names of `HeadWeights`, and `VOCABULARY` if truncated.

        Raises:
            HeadFileError: A weight is missing or wrong.
        """


def validate(model: type[Model], path: Path, content: bytes) -> Model:
    """Read a config.json as this model.

    Raises:
        HeadFileError: It has problems; all are named.
    """
    try:
        return model.model_validate_json(content)
    except ValidationError as exc:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in error['loc']) or 'config'}: found "
            f"{_shorten(error['input'])}, {error['msg']}"
            for error in exc.errors(include_url=False)
        )
        raise HeadFileError(f"{path}: {problems}") from exc


def configure(path: Path, **fields: object) -> HeadConfig:
    """Return the configuration that a published head amounts to.

    Raises:
        HeadFileError: There is no such head.
    """
    try:
        return HeadConfig.model_validate(fields)
    except ValidationError as exc:
        problems = "; ".join(str(error["msg"]) for error in exc.errors(include_url=False))
        raise HeadFileError(f"{path}: found a head that cannot be: {problems}") from exc


def groups(config: HeadConfig, *, first_apart: bool = False) -> list[range]:
    """Return the positions that share a set of weights, a range a set.

    Args:
        config: Of the head.
        first_apart: Whether tied positions leave the first one out, which is projected from
            another width.
    """
    positions = range(config.positions)
    if not config.tie_positions:
        return [range(position, position + 1) for position in positions]
    if not first_apart:
        return [positions]
    return [group for group in (positions[:1], positions[1:]) if group]


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
