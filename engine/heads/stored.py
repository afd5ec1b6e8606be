"""Reads the config.json and the tensors of a folder; each tensor is checked when it is read."""

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import HeadFileError

CONFIG_FILE = "config.json"
SAFETENSORS: Sequence[str] = ("*.safetensors",)
_NAMES_SHOWN = 8

# What readers raise for a damaged file; torch's for a pickle of anything but tensors, too.
_UNREADABLE = (SafetensorError, OSError, RuntimeError, ValueError, pickle.UnpicklingError, EOFError)


def read_config(folder: Path) -> bytes:
    """Return the content of a folder's config.json.

    Raises:
        HeadFileError: The folder or its config.json is missing or unreadable.
    """
    if not folder.is_dir():
        raise HeadFileError(f"{folder}: no such folder, expected a draft head")
    try:
        return (folder / CONFIG_FILE).read_bytes()
    except OSError as exc:
        raise HeadFileError(f"{folder / CONFIG_FILE}: cannot be read: {exc.strerror}") from exc


def parse_config(path: Path, content: bytes) -> dict[str, Any]:
    """Return the object in a config.json.

    Raises:
        HeadFileError: It is not a JSON object.
    """
    try:
        document = json.loads(content)
    except ValueError as exc:
        raise HeadFileError(f"{path}: damaged: invalid JSON: {exc}") from exc
    if not isinstance(document, dict):
        raise HeadFileError(f"{path}: found {type(document).__name__}, expected a JSON object")
    return document


class _Slice:
    """The shape of a tensor, as `safe_open` says it."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def get_shape(self) -> list[int]:
        return list(self._tensor.shape)


class _TorchFile:
    """A state dict that `torch.save` wrote, read as `safe_open` reads its files."""

    def __init__(self, path: Path) -> None:
        content = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        if not isinstance(content, Mapping):
            raise ValueError(f"found {type(content).__name__}, expected a state dict")
        self._tensors = {
            str(name): tensor for name, tensor in content.items() if isinstance(tensor, Tensor)
        }

    def keys(self) -> list[str]:
        return list(self._tensors)

    def get_slice(self, name: str) -> _Slice:
        return _Slice(self._tensors[name])

    def get_tensor(self, name: str) -> Tensor:
        return self._tensors[name]


class StoredWeights:
    """The tensors in a folder's files, taken one by one; a context manager.

    Args:
        folder: The folder.
        prefix: Optional prefix of names, which is stripped.
        files: Patterns of file names; those of the first pattern that matches any are read. Files
            that end in .pt are torch's, of which nothing but tensors is read, the others
            safetensors.

    Raises:
        HeadFileError: There are no files, one is unreadable, or two contain the same name.
    """

    def __init__(
        self, folder: Path, *, prefix: str = "", files: Sequence[str] = SAFETENSORS
    ) -> None:
        self.folder = folder
        self._prefix = prefix
        self._patterns = files
        self._files = ExitStack()
        self._found: dict[str, tuple[Path, str, Any]] = {}
        self._left: set[str] = set()

    def __enter__(self) -> Self:
        found = (sorted(self.folder.glob(pattern)) for pattern in self._patterns)
        paths = next(filter(None, found), [])
        if not paths:
            names = " or ".join(self._patterns)
            raise HeadFileError(f"{self.folder}: found no {names} file, expected the weights")
        with ExitStack() as opening:
            for path in paths:
                self._open(path, opening)
            self._files = opening.pop_all()
        self._left = set(self._found)
        return self

    def __exit__(self, *exc: object) -> None:
        self._files.close()

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor without reading it.

        Raises:
            HeadFileError: It is missing.
        """
        if name not in self._found:
            raise HeadFileError(
                f"{self.folder}: found no weight {name}; found {_enumerate(self._left)}"
            )
        _, stored_name, file = self._found[name]
        return tuple(file.get_slice(stored_name).get_shape())

    def take(self, name: str, shape: Sequence[int]) -> Tensor:
        """Return a floating-point tensor, on the CPU, in its stored dtype.

        Raises:
            HeadFileError: It is missing, has another shape or no floats, or is not finite.
        """
        tensor = self._take(name, shape)
        if not tensor.is_floating_point():
            raise self._error(name, f"found {tensor.dtype}, expected floats")
        if not bool(torch.isfinite(tensor).all()):
            raise self._error(name, "found NaN or infinity, expected finite weights")
        return tensor

    def take_integers(self, name: str, shape: Sequence[int]) -> Tensor:
        """Return an integer tensor, on the CPU, as int64.

        Raises:
            HeadFileError: It is missing, has another shape, or no integers.
        """
        tensor = self._take(name, shape)
        if tensor.dtype not in (torch.int32, torch.int64):
            raise self._error(name, f"found {tensor.dtype}, expected integers")
        return tensor.to(torch.int64)

    def take_tied(self, names: Iterable[str], shape: Sequence[int]) -> Tensor:
        """Return the tensor stored under all of these names; all but the first are optional.

        Raises:
            HeadFileError: As `take`, or tensors that must be equal differ.
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
                name, f"found weights that do not belong to such a head: {_enumerate(self._left)}"
            )

    def _open(self, path: Path, opening: ExitStack) -> None:
        is_torch = path.suffix == ".pt"
        try:
            file: Any = (
                _TorchFile(path)
                if is_torch
                else opening.enter_context(safe_open(path, framework="pt", device="cpu"))
            )
            names = list(file.keys())
        except _UNREADABLE as exc:
            expected = "a state dict of torch's" if is_torch else "safetensors"
            raise HeadFileError(f"{path}: damaged, expected {expected}: {exc}") from exc
        for stored_name in names:
            name = stored_name.removeprefix(self._prefix)
            if name in self._found:
                raise HeadFileError(f"{path}: found {name} twice, expected it once")
            self._found[name] = (path, stored_name, file)

    def _take(self, name: str, shape: Sequence[int]) -> Tensor:
        if name not in self._found:
            raise HeadFileError(
                f"{self.folder}: found no weight {name}, expected one of shape {tuple(shape)}; "
                f"found {_enumerate(self._left)}"
            )
        _, stored_name, file = self._found[name]
        found = self.shape(name)
        if found != tuple(shape):
            raise self._error(name, f"found shape {found}, expected {tuple(shape)}")
        self._left.discard(name)
        # Both readers map the file. One that is written over would change a head that serves, and
        # one that becomes shorter would end the worker.
        return cast("Tensor", file.get_tensor(stored_name)).clone()

    def _error(self, name: str, problem: str) -> HeadFileError:
        return HeadFileError(f"{self._found[name][0]}: {name}: {problem}")


def _enumerate(names: Iterable[str]) -> str:
    known = sorted(names)
    more = len(known) - _NAMES_SHOWN
    shown = ", ".join(known[:_NAMES_SHOWN]) or "none"
    return f"{shown} and {more} more" if more > 0 else shown
