"""Persists the suffix index over restarts: loads it at start and saves it periodically."""

import logging
import time
from pathlib import Path

from engine.errors import SnapshotError
from engine.suffix import SuffixIndex

_log = logging.getLogger(__name__)


class Snapshots:
    """A file with the index's finished answers, mode 0600.

    A missing, damaged or outdated file causes a cold start, not an error.
    """

    def __init__(self, index: SuffixIndex, path: Path) -> None:
        self._index = index
        self._path = path
        self._saved: tuple[int, int] | None = None

    def load(self) -> None:
        """Load the file into the index, if it exists and is readable."""
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
        """Write the whole file, unless nothing has changed since the last time.

        Raises:
            OSError: The file cannot be written.
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
