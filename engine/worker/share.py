"""Suffix snapshots that the workers of a model share, in a folder or an object store."""

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

_END = ".suffix"
_MOST_READ = 8
"""Files that a starting worker reads: those that were written last."""

_MOST_KEPT = 64
"""Files of a model. Workers that are gone leave theirs: one that writes removes the oldest."""


class Share:
    """Snapshots of one model, a file for each worker.

    Args:
        url: Of the shared place, a path or a URL that fsspec knows.
        identity: What token ids mean (`identity_of`); other models have other folders.
        name: Of this worker's file; no other worker may have it, and it keeps it.

    Raises:
        ValueError: fsspec does not know the URL's protocol.
        ImportError: The package for the protocol is not installed.
    """

    def __init__(self, url: str, identity: str, name: str) -> None:
        self._files, root = fsspec.url_to_fs(url, use_listings_cache=False)
        model = hashlib.sha256(identity.encode()).hexdigest()[:32]
        self._folder = f"{root.rstrip('/')}/{model}"
        self._own = f"{self._folder}/{name}{_END}"

    def put(self, snapshot: Path) -> None:
        """Replace this worker's file.

        Raises:
            OSError: It cannot be written; the old one stays.
        """
        self._files.makedirs(self._folder, exist_ok=True)
        partial = f"{self._own}.partial"
        if isinstance(self._files, LocalFileSystem):
            Path(partial).touch(mode=0o600)  # a copy keeps the mode of the file that it fills
        self._files.put_file(str(snapshot), partial)
        self._files.mv(partial, self._own)
        for old in self._listed()[:-_MOST_KEPT]:
            with contextlib.suppress(FileNotFoundError):  # another worker was faster
                self._files.rm_file(old)

    def fetch(self, into: Path) -> Iterator[str]:
        """Copy the latest files of all workers, one after another, oldest first.

        Args:
            into: Path of the copy; each file replaces the one before it.

        Yields:
            The name of the file.

        Raises:
            OSError: A file cannot be read.
        """
        if not self._files.isdir(self._folder):
            return
        for path in self._listed()[-_MOST_READ:]:
            self._files.get_file(path, str(into))
            yield path.rpartition("/")[2]

    def _listed(self) -> list[str]:
        """Return the paths of all snapshots, oldest first."""
        paths = [path for path in self._files.ls(self._folder, detail=False) if path.endswith(_END)]
        return sorted(paths, key=self._files.modified)
