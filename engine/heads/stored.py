"""Reads what a folder holds: its config.json, and its tensors, each checked as it is taken."""

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import HeadFileError

CONFIG_FILE = "config.json"
_NAMES_SHOWN = 8


def read_config(folder: Path) -> bytes:
    """Return the bytes of a folder's config.json.

    Raises:
        HeadFileError: There is no such folder, or it has no config.json that can be read.
    """
    if not folder.is_dir():
        raise HeadFileError(f"{folder}: no such folder; expected a draft head's")
    try:
        return (folder / CONFIG_FILE).read_bytes()
    except OSError as exc:
        raise HeadFileError(f"{folder / CONFIG_FILE}: cannot be read: {exc.strerror}") from exc


def parse_config(path: Path, content: bytes) -> dict[str, Any]:
    """Return a config.json's object.

    Raises:
        HeadFileError: It is no JSON object.
    """
    try:
        document = json.loads(content)
    except ValueError as exc:
        raise HeadFileError(f"{path}: damaged: found no JSON: {exc}") from exc
    if not isinstance(document, dict):
        raise HeadFileError(f"{path}: found {type(document).__name__}, expected a JSON object")
    return document


class StoredWeights:
    """The tensors of a folder's *.safetensors files, taken one by one; a context manager.

    Args:
        folder: Where they lie.
        prefix: What names may begin with, and are known without.

    Raises:
        HeadFileError: There are none, one cannot be read, or two have a name in common.
    """

    def __init__(self, folder: Path, *, prefix: str = "") -> None:
        self.folder = folder
        self._prefix = prefix
        self._files = ExitStack()
        self._places: dict[str, tuple[Path, str, Any]] = {}
        self._left: set[str] = set()

    def __enter__(self) -> Self:
        paths = sorted(self.folder.glob("*.safetensors"))
        if not paths:
            raise HeadFileError(f"{self.folder}: found no *.safetensors file, expected the weights")
        with ExitStack() as opening:
            for path in paths:
                self._open(path, opening)
            self._files = opening.pop_all()
        self._left = set(self._places)
        return self

    def __exit__(self, *exc: object) -> None:
        self._files.close()

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def take(self, name: str, shape: Sequence[int]) -> Tensor:
        """Return a tensor of floats, on the CPU, in the dtype that it is stored in.

        Raises:
            HeadFileError: It is missing, has another shape, no floats, or a value that is not
                finite.
        """
        tensor = self._take(name, shape)
        if not tensor.is_floating_point():
            raise self._error(name, f"found {tensor.dtype}, expected floats")
        if not bool(torch.isfinite(tensor).all()):
            raise self._error(name, "found NaN or infinity, expected finite weights")
        return tensor

    def take_integers(self, name: str, shape: Sequence[int]) -> Tensor:
        """Return a tensor of integers, on the CPU, as int64.

        Raises:
            HeadFileError: It is missing, has another shape, or no integers.
        """
        tensor = self._take(name, shape)
        if tensor.dtype not in (torch.int32, torch.int64):
            raise self._error(name, f"found {tensor.dtype}, expected integers")
        return tensor.to(torch.int64)

    def take_tied(self, names: Iterable[str], shape: Sequence[int]) -> Tensor:
        """Return the tensor that has all these names; all but the first may be left out.

        Raises:
            HeadFileError: As `take`, or two that should be one differ.
        """
        first, *others = names
        tensor = self.take(first, shape)
        for name in others:
            if name in self and not torch.equal(tensor, self.take(name, shape)):
                raise self._error(name, f"found other values than {first}, expected tied weights")
        return tensor

    def finish(self) -> None:
        """Check that all tensors were taken.

        Raises:
            HeadFileError: Some were not.
        """
        if self._left:
            name = min(self._left)
            raise self._error(
                name, f"found weights that no such head has: {_enumerate(self._left)}"
            )

    def _open(self, path: Path, opening: ExitStack) -> None:
        try:
            file = opening.enter_context(safe_open(path, framework="pt", device="cpu"))
            names = list(file.keys())
        except (SafetensorError, OSError) as exc:
            raise HeadFileError(f"{path}: damaged, expected safetensors: {exc}") from exc
        for stored_name in names:
            name = stored_name.removeprefix(self._prefix)
            if name in self._places:
                raise HeadFileError(f"{path}: found {name} twice, expected it once")
            self._places[name] = (path, stored_name, file)

    def _take(self, name: str, shape: Sequence[int]) -> Tensor:
        if name not in self._places:
            raise HeadFileError(
                f"{self.folder}: found no weight {name}, expected one of shape {tuple(shape)}; "
                f"found {_enumerate(self._left)}"
            )
        _, stored_name, file = self._places[name]
        found = tuple(file.get_slice(stored_name).get_shape())
        if found != tuple(shape):
            raise self._error(name, f"found shape {found}, expected {tuple(shape)}")
        self._left.discard(name)
        return file.get_tensor(stored_name)

    def _error(self, name: str, problem: str) -> HeadFileError:
        return HeadFileError(f"{self._places[name][0]}: {name}: {problem}")


def _enumerate(names: Iterable[str]) -> str:
    known = sorted(names)
    more = len(known) - _NAMES_SHOWN
    shown = ", ".join(known[:_NAMES_SHOWN]) or "none"
    return f"{shown} and {more} more" if more > 0 else shown
