"""The folder in which a worker and its trainer meet: who writes what, and where."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import JsonValue
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.errors import TrafficError

OUTCOMES = ("deleted", "failed", "not_better", "published")
"""Of a training that ended; a trainer that was killed says nothing."""


@dataclass(frozen=True, slots=True)
class AdaptFolder:
    """Paths below `engine.speculation.head.adapt.folder`.

    The worker writes `segments/`, tables.safetensors and serving.json. The trainer writes `heads/`,
    the link `head` to the newest of them, and status.json. Both replace whole files.

    Attributes:
        root: The folder.
    """

    root: Path

    def segments(self, rank: int) -> Path:
        """Return the folder of a rank's ring."""
        return self.root / "segments" / str(rank)

    @property
    def rings(self) -> list[Path]:
        """The folders of all rings that exist."""
        return sorted((self.root / "segments").glob("*"))

    @property
    def heads(self) -> Path:
        """Folder of trained heads, each in a numbered folder."""
        return self.root / "heads"

    @property
    def head(self) -> Path:
        """Link to the newest trained head, which the worker watches."""
        return self.root / "head"

    def note_deletion(self) -> None:
        """Record that segments were deleted on request: training in progress must not be used.

        Raises:
            OSError: The file cannot be written.
        """
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        _replace(self.root / "forgotten", b"")

    def last_deletion(self) -> int:
        """Return a number that changes with each deletion on request."""
        try:
            return (self.root / "forgotten").stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def write_serving(self, head: Path, target: str) -> None:
        """Say which head serves, and for which model.

        Args:
            head: Its folder.
            target: Digest of the model.

        Raises:
            OSError: The file cannot be written.
        """
        self._write_json("serving.json", {"folder": str(head), "target": target})

    def read_serving(self) -> tuple[Path, str] | None:
        """Return what `write_serving` said last; None if there is no serving head."""
        found = self._read_json("serving.json")
        return (Path(str(found["folder"])), str(found["target"])) if found else None

    def write_status(self, status: Mapping[str, JsonValue]) -> None:
        """Say what the trainer has done.

        Raises:
            OSError: The file cannot be written.
        """
        self._write_json("status.json", status)

    def read_status(self) -> dict[str, JsonValue]:
        """Return what `write_status` said last; empty if nothing."""
        return self._read_json("status.json")

    def write_tables(
        self, embedding: Tensor | None, output: Tensor | None, *, tokenizer: str | None
    ) -> None:
        """Store the tables of the target that heads share, in bfloat16.

        Args:
            embedding: Input embeddings, [vocab_size, hidden_size].
            output: Weight of the output layer, likewise; may be the same tensor.
            tokenizer: SHA-256 of its tokenizer.json.

        Raises:
            OSError: The file cannot be written.
        """
        tables = {"embedding": embedding} if embedding is not None else {}
        is_tied = (
            output is not None
            and embedding is not None
            and output.data_ptr() == embedding.data_ptr()
        )
        if output is not None and not is_tied:
            tables["output"] = output
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.root / "tables.safetensors"
        scratch = path.with_suffix(".part")
        save_file(
            {
                name: table.detach().to("cpu", torch.bfloat16).contiguous()
                for name, table in tables.items()
            },
            scratch,
            metadata={"tokenizer": tokenizer or "", "tied": str(is_tied)},
        )
        scratch.replace(path)

    def read_tables(self) -> tuple[Tensor | None, Tensor | None, str | None]:
        """Return embedding, output and tokenizer's digest, as in `write_tables`, in bfloat16.

        Raises:
            TrafficError: There are none, or the file is damaged.
        """
        path = self.root / "tables.safetensors"
        try:
            tables = load_file(path)
            about = _metadata(path)
        except (OSError, SafetensorError) as exc:
            raise TrafficError(f"{path.name}: no tables of the target: {exc}") from exc
        embedding = tables.get("embedding")
        output = embedding if about["tied"] == str(True) else tables.get("output")
        return embedding, output, about["tokenizer"] or None

    def _write_json(self, name: str, content: Mapping[str, JsonValue]) -> None:
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        _replace(self.root / name, json.dumps(content).encode())

    def _read_json(self, name: str) -> dict[str, JsonValue]:
        try:
            found: dict[str, JsonValue] = json.loads((self.root / name).read_text("utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return found


def _metadata(path: Path) -> dict[str, str]:
    with safe_open(path, "pt") as file:
        about: dict[str, str] = file.metadata()
    return about


def _replace(path: Path, content: bytes) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_bytes(content)
    scratch.replace(path)
