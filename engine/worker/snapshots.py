"""Persists the suffix index over restarts: loads it at start and saves it periodically."""

import hashlib
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vllm.tokenizers import cached_tokenizer_from_config

from engine.errors import SnapshotError
from engine.suffix import SuffixIndex

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
    """A file with the index's finished answers, mode 0600.

    A file that is missing, damaged, outdated or of another model causes a cold start, not an error.
    The next save replaces it.

    Args:
        index: Loaded and saved.
        path: Of the file.
        identity: What token ids mean (`identity_of`).
    """

    def __init__(self, index: SuffixIndex, path: Path, identity: str) -> None:
        self._index = index
        self._path = path
        self._identity = identity
        self._saved: tuple[int, int] | None = None

    def load(self) -> None:
        """Load the file into the index, if it exists and is readable."""
        try:
            self._index.load(self._path, identity=self._identity)
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
        self._index.save(self._path, identity=self._identity)
        self._saved = state
        _log.info("saved the suffix index in %.0f ms", 1e3 * (time.perf_counter() - began))
