"""Persists the suffix index over restarts, and shares it with other workers of the model."""

import hashlib
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vllm.tokenizers import cached_tokenizer_from_config

from engine.errors import SnapshotError, SuffixCapacityError
from engine.suffix import Loaded, SuffixIndex
from engine.worker.share import Share

_log = logging.getLogger(__name__)


def identity_of(model_config: Any) -> str:
    """Return what token ids mean: the model, its revision, and a hash of its tokenizer.

    Args:
        model_config: vLLM's. Without a tokenizer (`skip_tokenizer_init`) the model alone counts.
    """
    tokenizer = cached_tokenizer_from_config(model_config)
    hashed = "none" if tokenizer is None else hash_of(tokenizer.get_vocab())
    model = f"{model_config.model}@{model_config.revision or 'main'}"
    return f"{model[-3000:]}, tokenizer {hashed}"


def hash_of(vocabulary: Mapping[str, int]) -> str:
    """Return the SHA-256 of a tokenizer's tokens and their ids, whatever their order."""
    digest = hashlib.sha256()
    for token, number in sorted(vocabulary.items()):
        digest.update(f"{number} {token!r}\n".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


class Snapshots:
    """A file with the index's finished answers, mode 0600, and copies of it for other workers.

    A file that is missing, damaged, outdated or of another model causes a cold start, not an error.
    The next save replaces it.

    Args:
        index: Loaded and saved.
        path: Of the file.
        identity: What token ids mean (`identity_of`).
        share: Where other workers of the model have theirs; None: nowhere.
    """

    def __init__(
        self, index: SuffixIndex, path: Path, identity: str, share: Share | None = None
    ) -> None:
        self._index = index
        self._path = path
        self._identity = identity
        self._share = share
        self._loaded = Loaded()
        self._saved: tuple[int, int] | None = None
        self._shared: tuple[int, int] | None = None

    def load(self) -> None:
        """Load the file into the index, if it exists and is readable."""
        try:
            self._index.load(self._path, identity=self._identity, loaded=self._loaded)
        except FileNotFoundError:
            return
        except (SnapshotError, OSError) as exc:
            _log.warning("the suffix index starts empty: %s", exc)
            return
        self._saved = self._shared = self._state()
        _log.info("the suffix index starts with %d tokens of earlier answers", self._saved[0])

    def load_shared(self) -> None:
        """Add the answers in the latest files of other workers; requests may be running.

        A file that is damaged or of another version is skipped, with a line in the log.

        Raises:
            OSError: The shared place cannot be read.
        """
        if self._share is None:
            return
        began, before, files = time.perf_counter(), self._index.stats().tokens, 0
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        copy = self._path.with_name(f"{self._path.name}.shared")
        try:
            for name in self._share.fetch(copy):
                try:
                    self._index.load(copy, identity=self._identity, loaded=self._loaded)
                    files += 1
                except (SnapshotError, SuffixCapacityError) as exc:
                    _log.warning("the shared snapshot %s is left out: %s", name, exc)
        finally:
            copy.unlink(missing_ok=True)
            self._loaded = Loaded()
        _log.info(
            "took over %d tokens of %d shared snapshots in %.1f s",
            self._index.stats().tokens - before,
            files,
            time.perf_counter() - began,
        )

    def save(self) -> None:
        """Write the whole file, unless nothing has changed since the last time.

        Raises:
            OSError: The file cannot be written.
        """
        state = self._state()
        if state == self._saved:
            return
        began = time.perf_counter()
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._index.save(self._path, identity=self._identity)
        self._saved = state
        _log.info("saved the suffix index in %.0f ms", 1e3 * (time.perf_counter() - began))

    def share(self) -> None:
        """Copy the file that was saved last to the other workers, unless they have it already.

        Raises:
            OSError: It cannot be written.
        """
        if self._share is None or self._saved is None or self._saved == self._shared:
            return
        state = self._saved
        self._share.put(self._path)
        self._shared = state

    def _state(self) -> tuple[int, int]:
        stats = self._index.stats()
        return stats.tokens, stats.evicted_tokens
