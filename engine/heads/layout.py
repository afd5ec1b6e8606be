"""What all layouts of a stored head share: from a file to a configuration."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import BaseModel, ValidationError
from torch import Tensor

from engine.errors import HeadFileError
from engine.heads.config import HeadConfig
from engine.heads.stored import StoredWeights

VOCABULARY = "vocabulary.ids"
"""Name of the tensor with the target ids of the draft vocabulary."""

Model = TypeVar("Model", bound=BaseModel)


class Layout(Protocol):
    """A storage layout, bound to one folder.

    Args:
        path: Path of its config.json.
        content: Content of that file.

    Attributes:
        config: The head in our terms.
        prefix: Optional prefix of tensor names.
        files: Patterns of the names of the files with its weights; see `StoredWeights`.

    Raises:
        HeadFileError: The configuration is invalid.
    """

    config: HeadConfig
    prefix: str
    files: Sequence[str]

    def __init__(self, path: Path, content: bytes) -> None: ...

    def read(self, stored: StoredWeights) -> dict[str, Tensor]:
        """Return the weights under the names of `HeadWeights`, and `VOCABULARY` if truncated.

        Raises:
            HeadFileError: A weight is missing or invalid.
        """


def validate(model: type[Model], path: Path, content: bytes) -> Model:
    """Parse a config.json as this model.

    Raises:
        HeadFileError: It is invalid; the message lists all problems.
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
    """Return our configuration for a published head.

    Raises:
        HeadFileError: The values contradict each other.
    """
    try:
        return HeadConfig.model_validate(fields)
    except ValidationError as exc:
        problems = "; ".join(str(error["msg"]) for error in exc.errors(include_url=False))
        raise HeadFileError(f"{path}: invalid head: {problems}") from exc


def groups(config: HeadConfig, *, first_apart: bool = False) -> list[range]:
    """Return the positions that share a set of weights, one range per set.

    Args:
        config: The head's configuration.
        first_apart: Whether tied positions exclude the first one, whose projection has another
            input width.
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
