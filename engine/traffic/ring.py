"""The files of recorded traffic: as many as fit, the oldest deleted first.

A name has the time of writing, digests of tenant and request, and the number of answer tokens. So
what is deleted on request is found without reading, and without a key.
"""

import contextlib
import threading
import time
from collections import deque
from pathlib import Path

from engine.errors import TrafficError
from engine.traffic.seal import Seal
from engine.traffic.segment import Segment

_SUFFIX, _PART = ".segment", ".part"


class Ring:
    """A folder of segments that one process writes; safe to use from several threads.

    Attributes:
        bytes: Of all segments.

    Args:
        folder: Created with the first segment, for its owner alone.
        max_bytes: Most bytes of all segments.
        seal: Encrypts them.
    """

    def __init__(self, folder: Path, *, max_bytes: int, seal: Seal) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._seal = seal
        self._lock = threading.Lock()
        self._forgotten: dict[str | None, int] = {}
        self._files: deque[tuple[Path, int]] = deque()
        self.bytes = 0
        for path in folder.glob(f"*{_PART}"):  # of a process that was killed
            with contextlib.suppress(OSError):
                path.unlink()
        for path in list_segments(folder):
            self._add(path, path.stat().st_size)

    def write(self, segment: Segment, *, began_ns: int) -> bool:
        """Store a segment; older ones make room.

        Args:
            segment: The segment.
            began_ns: Reading of `time.time_ns` when its first row was recorded.

        Returns:
            Whether it was stored: not if its tenant was forgotten meanwhile.

        Raises:
            OSError: It cannot be written; nothing of it is left.
        """
        with self._lock:
            known = (self._forgotten.get(segment.tenant, 0), self._forgotten.get(None, 0))
            if began_ns <= max(known):
                return False
            name = "-".join(
                (
                    f"{time.time_ns():020d}",
                    segment.tenant,
                    segment.request,
                    f"{segment.answer_tokens}{_SUFFIX}",
                )
            )
            content = self._seal.close(segment.pack(), name=name)
            while self._files and self.bytes + len(content) > self._max_bytes:
                self._drop_oldest()
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = self._folder / name
            scratch = path.with_suffix(_PART)
            try:
                _write_private(scratch, content)
                scratch.rename(path)
            except OSError:
                with contextlib.suppress(OSError):
                    scratch.unlink(missing_ok=True)
                raise
            self._add(path, len(content))
            return True

    def forget(self, tenant: str | None) -> int:
        """Delete all segments of a tenant, and store none that began before now.

        Args:
            tenant: Its digest; None for all tenants.

        Returns:
            The number of segments deleted.

        Raises:
            OSError: A file cannot be deleted.
        """
        with self._lock:
            self._forgotten[tenant] = time.time_ns()
            deleted = delete_segments(self._folder, tenant)
            kept = [one for one in self._files if tenant not in (None, _tenant_of(one[0]))]
            self._files = deque(kept)
            self.bytes = sum(size for _, size in kept)
            return deleted

    def _add(self, path: Path, size: int) -> None:
        self._files.append((path, size))
        self.bytes += size

    def _drop_oldest(self) -> None:
        path, size = self._files[0]
        path.unlink(missing_ok=True)
        self._files.popleft()
        self.bytes -= size


def list_segments(folder: Path) -> list[Path]:
    """Return the segments in a folder, oldest first; none if there is no folder."""
    return sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: path.name)


def delete_segments(folder: Path, tenant: str | None) -> int:
    """Delete the segments of a tenant, or all of them; return how many there were.

    Raises:
        OSError: A file cannot be deleted.
    """
    theirs = [one for one in list_segments(folder) if tenant in (None, _tenant_of(one))]
    for path in theirs:
        path.unlink(missing_ok=True)
    return len(theirs)


def read_segment(path: Path, seal: Seal) -> Segment:
    """Read a segment.

    Raises:
        FileNotFoundError: It was deleted meanwhile.
        OSError: It cannot be read.
        TrafficError: It is damaged, or was written with another key.
    """
    segment = Segment.unpack(seal.open(path.read_bytes(), name=path.name))
    if segment.tenant != _tenant_of(path):
        raise TrafficError(f"{path.name}: of another tenant than it says")
    return segment


def tokens_of(path: Path) -> int:
    """Return the number of answer tokens of a segment, without reading it."""
    return int(path.stem.rpartition("-")[2])


def _tenant_of(path: Path) -> str:
    return path.name.split("-")[1]


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
