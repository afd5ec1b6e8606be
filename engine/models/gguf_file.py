"""Reads a GGUF file: its metadata with checked types, and its tensors as float32 and as codes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGUFReader, dequantize

from engine.errors import ModelError
from engine.models.architecture import ARCHITECTURES, Architecture
from engine.models.codes import Codes, read_codes

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a file.

    Attributes:
        name: GGUF's name.
        values: The numbers, dequantised; the caller owns them.
        codes: What they were made of; None if no kernel reads such.
    """

    name: str
    values: FloatArray
    codes: Codes | None


@dataclass(frozen=True, slots=True)
class GgufFile:
    """An open GGUF file; tensors are read from disk when needed.

    Attributes:
        path: Path of the file.
        metadata: Key -> value, as stored.
    """

    path: Path
    metadata: dict[str, Any]
    _tensors: list[Any]

    @property
    def architecture_name(self) -> str:
        """The architecture in the file's metadata, for example `llama`."""
        return self.text("general.architecture")

    @property
    def architecture(self) -> Architecture:
        """The properties of the file's architecture.

        Raises:
            ModelError: The architecture is not supported.
        """
        name = self.architecture_name
        if name not in ARCHITECTURES:
            known = ", ".join(sorted(ARCHITECTURES))
            raise ModelError(f"{self.path.name}: architecture {name}; supported are {known}")
        return ARCHITECTURES[name]

    def dimension(self, key: str) -> int:
        """Return an integer from the architecture's section, such as `block_count`."""
        return self.integer(f"{self.architecture_name}.{key}")

    def ratio(self, key: str) -> float:
        """Return a number from the architecture's section, such as `rope.freq_base`."""
        return float(self._get(f"{self.architecture_name}.{key}", (int, float)))

    def integer(self, key: str) -> int:
        """Return an integer by its full key."""
        return int(self._get(key, (int,)))

    def text(self, key: str) -> str:
        """Return a string by its full key."""
        return str(self._get(key, (str,)))

    def items(self, key: str) -> list[Any]:
        """Return a list by its full key."""
        return list(self._get(key, (list,)))

    def tensors(self) -> Iterator[Tensor]:
        """Yield the tensors in file order."""
        for tensor in self._tensors:
            kind, data = tensor.tensor_type, tensor.data
            values = np.array(dequantize(data, kind), dtype=np.float32)
            yield Tensor(str(tensor.name), values, read_codes(kind, data))

    def has_tensor(self, name: str) -> bool:
        """Tell whether the file has a tensor with this name."""
        return any(tensor.name == name for tensor in self._tensors)

    def _get(self, key: str, kinds: tuple[type, ...]) -> Any:
        value = self.metadata.get(key)
        if not isinstance(value, kinds):
            raise ModelError(f"{self.path.name}: {key} is missing or has the wrong type")
        return value


def open_gguf(path: Path) -> GgufFile:
    """Read the metadata of a GGUF file.

    Raises:
        ModelError: The file is not readable as GGUF.
    """
    try:
        reader = GGUFReader(path)
        metadata = {name: entry.contents() for name, entry in reader.fields.items()}
    except (OSError, ValueError, IndexError) as exc:
        raise ModelError(f"{path.name}: not a readable GGUF file: {exc}") from exc
    return GgufFile(path, metadata, list(reader.tensors))
