"""Keeps the suffix index over a restart: a file that is loaded at start and saved now and then."""

import logging
import time
from pathlib import Path

from engine.errors import SnapshotError
from engine.suffix import SuffixIndex

_log = logging.getLogger(__name__)


class Snapshots:
    """A file of the index's finished answers; as private as its owner's other files, mode 0600.

    A file that is missing, damaged or of another version means a cold start, never a failed one.
    """

    def __init__(self, index: SuffixIndex, path: Path) -> None:
        self._index = index
        self._path = path
        self._saved: tuple[int, int] | None = None

    def load(self) -> None:
        """Fill the index from the file, if there is one that can be read."""
        try:
            self._index.load(self._path)
        except FileNotFoundError:
            return
        except (SnapshotError, OSError) as exc:
            _log.warning("the suffix index starts empty: %s", exc)
            return
        stats = self._index.stats()
        self._saved = (stats.tokens, stats.evicted_tokens)
        _log.info("the suffix index starts with %d tokens of earlier answers", stats.tokens)

    def save(self) -> None:
        """Write the file as a whole, unless nothing was added since the last time.

        Raises:
            OSError: It cannot be written.
        """
        stats = self._index.stats()
        state = (stats.tokens, stats.evicted_tokens)
        if state == self._saved:
            return
        began = time.perf_counter()
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._index.save(self._path)
        self._saved = state
        _log.info("saved the suffix index in %.0f ms", 1e3 * (time.perf_counter() - began))
