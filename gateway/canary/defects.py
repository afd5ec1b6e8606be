"""Counts defects by model and source; a source with too many of them is shut.

The processes of a gateway share the counts in a small file, in the folder of the worker's socket.
Each of them reads it once a second. The counts end with the gateway.
"""

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path

from gateway.protocol import SpeculationMode

Counts = dict[str, dict[str, int]]
"""Defects by model and source."""

_INDEX_SOURCES = {"prediction": "suffix"}
"""Drafts from a prediction come from the suffix index."""
_USED: dict[SpeculationMode, frozenset[str]] = {
    "auto": frozenset(("suffix", "head", "native")),
    "suffix": frozenset(("suffix",)),
    "head": frozenset(("head",)),
    "off": frozenset(),
}


def allowed_mode(mode: SpeculationMode, shut: frozenset[str]) -> SpeculationMode:
    """The mode of a request in place of `mode` while the sources `shut` may not draft."""
    if not _USED[mode] & shut:
        return mode
    if mode == "auto" and shut == {"suffix"}:
        return "head"
    if mode == "auto" and shut == {"head"}:
        return "suffix"
    return "off"


class Defects:
    """The counts.

    Args:
        path: The shared file; None: this process is the only one.
        shut_after: Defects after which a source is shut; None: never.
        on_change: Called with model, source, and whether it is shut, when that changes.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        shut_after: int | None,
        on_change: Callable[[str, str, bool], None],
    ) -> None:
        self._path = path
        self._shut_after = shut_after
        self._on_change = on_change
        self._counts: Counts = {}
        self._shut: dict[str, frozenset[str]] = {}
        self._version: tuple[int, int] | None = None

    def shut(self, model: str) -> frozenset[str]:
        """The sources that may not draft for a model."""
        return self._shut.get(model, frozenset())

    def as_json(self) -> dict[str, dict[str, dict[str, int | bool]]]:
        """The counts by model and source, with whether the source is shut."""
        return {
            model: {
                source: {"defects": count, "shut": source in self.shut(model)}
                for source, count in sources.items()
            }
            for model, sources in self._counts.items()
        }

    def add(self, model: str, source: str) -> None:
        """Count a defect.

        Raises:
            OSError: The file cannot be read or written.
        """
        source = _INDEX_SOURCES.get(source, source)

        def count(counts: Counts) -> None:
            sources = counts.setdefault(model, {})
            sources[source] = sources.get(source, 0) + 1

        self._change(count)

    def open(self, model: str | None) -> None:
        """Forget the defects of a model, or of all (None), and so open its sources.

        Raises:
            OSError: As `add`.
        """

        def forget(counts: Counts) -> None:
            if model is None:
                counts.clear()
            else:
                counts.pop(model, None)

        self._change(forget)

    def refresh(self) -> None:
        """Take over what other processes wrote.

        Raises:
            OSError: As `add`.
        """
        if self._path is None or not self._path.exists():
            return
        found = self._path.stat()
        if (version := (found.st_ino, found.st_mtime_ns)) != self._version:
            self._take(json.loads(self._path.read_bytes()))
            self._version = version

    def _change(self, change: Callable[[Counts], None]) -> None:
        if self._path is None:
            counts = {model: dict(sources) for model, sources in self._counts.items()}
            change(counts)
            self._take(counts)
            return
        with self._path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            counts = json.loads(self._path.read_bytes()) if self._path.exists() else {}
            change(counts)
            beside = self._path.with_suffix(f".{os.getpid()}")
            beside.write_text(json.dumps(counts), encoding="utf-8")
            beside.replace(self._path)
        self.refresh()

    def _take(self, counts: Counts) -> None:
        before, self._counts = self._shut, counts
        self._shut = {model: self._too_many(sources) for model, sources in counts.items()}
        for model in {*before, *self._shut}:
            was, now = before.get(model, frozenset()), self.shut(model)
            for source in sorted(was ^ now):
                self._on_change(model, source, source in now)

    def _too_many(self, sources: dict[str, int]) -> frozenset[str]:
        most = self._shut_after
        # A defect where nothing was drafted shuts nothing.
        return frozenset(
            source
            for source, count in sources.items()
            if most is not None and count >= most and source != "target"
        )
