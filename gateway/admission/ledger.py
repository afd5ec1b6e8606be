"""The state of every key's limits, in memory that all processes of this gateway share.

One fixed-size slot a key, in a mapping that is private (one process) or a shared file
(`gateway.processes` > 1). Each process owns one column for its running requests, so that a
process that died leaves no phantom load: its successor starts by clearing the column.
"""

import fcntl
import hashlib
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

MAX_PROCESSES = 64
_SLOTS = 2**16  # 18 MiB, of which the kernel gives only what is touched
_HEAD = struct.Struct("=16sdd")  # key digest, arrival time of requests, arrival time of tokens
_COLUMN = struct.Struct("=i")
_SLOT_BYTES = _HEAD.size + MAX_PROCESSES * _COLUMN.size
_EMPTY = bytes(16)


class LedgerFullError(Exception):
    """More keys are in use than the ledger has slots."""


def create_shared_ledger() -> int:
    """Make the memory for several processes; returns its file descriptor, inheritable."""
    descriptor = os.memfd_create("specgate-limits", 0)
    os.ftruncate(descriptor, _SLOTS * _SLOT_BYTES)
    return descriptor


class Ledger:
    """Reads and writes the slots; all methods are quick and never wait for long.

    Args:
        descriptor: Of `create_shared_ledger`; None for a single process.
        process: This process's column, 0 <= process < MAX_PROCESSES; cleared here.
        slots: How many keys it can hold.
    """

    def __init__(
        self, descriptor: int | None = None, *, process: int = 0, slots: int = _SLOTS
    ) -> None:
        self._descriptor = descriptor
        self._slots = slots
        self._column = _HEAD.size + process * _COLUMN.size
        self._memory = mmap.mmap(-1 if descriptor is None else descriptor, slots * _SLOT_BYTES)
        self._places: dict[str, int] = {}
        if descriptor is not None:
            self._clear_column()

    def _clear_column(self) -> None:
        """Forget what the process that had this column before was running when it died."""
        for place in range(0, self._slots * _SLOT_BYTES, _SLOT_BYTES):
            if _COLUMN.unpack_from(self._memory, place + self._column) != (0,):
                _COLUMN.pack_into(self._memory, place + self._column, 0)

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()

    @contextmanager
    def account(self, key_id: str) -> Iterator["Account"]:
        """The slot of a key, for the length of the block nobody else's."""
        place = self._place(key_id)
        with self._locked(place):
            yield Account(self._memory, place, place + self._column)

    def _place(self, key_id: str) -> int:
        place = self._places.get(key_id)
        if place is None:
            place = self._places[key_id] = self._find(hashlib.sha256(key_id.encode()).digest()[:16])
        return place

    def _find(self, digest: bytes) -> int:
        """Open addressing: the first slot from the digest's home that is its own or free."""
        home = int.from_bytes(digest[:8], "little") % self._slots
        for step in range(self._slots):
            place = (home + step) % self._slots * _SLOT_BYTES
            with self._locked(place):
                owner, _, _ = _HEAD.unpack_from(self._memory, place)
                if owner == _EMPTY:
                    _HEAD.pack_into(self._memory, place, digest, 0.0, 0.0)
                if owner in (_EMPTY, digest):
                    return place
        raise LedgerFullError(f"more than {self._slots} keys have limits in use")

    @contextmanager
    def _locked(self, place: int) -> Iterator[None]:
        if self._descriptor is None:
            yield
            return
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX, _SLOT_BYTES, place)
        try:
            yield
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, _SLOT_BYTES, place)


class Account:
    """One key's state; valid inside the block that handed it out."""

    __slots__ = ("_column", "_memory", "_place")

    def __init__(self, memory: mmap.mmap, place: int, column: int) -> None:
        self._memory = memory
        self._place = place
        self._column = column

    @property
    def arrivals(self) -> tuple[float, float]:
        """Theoretical arrival times of requests and of tokens, monotonic seconds."""
        _, requests, tokens = _HEAD.unpack_from(self._memory, self._place)
        return requests, tokens

    @arrivals.setter
    def arrivals(self, times: tuple[float, float]) -> None:
        digest, _, _ = _HEAD.unpack_from(self._memory, self._place)
        _HEAD.pack_into(self._memory, self._place, digest, *times)

    @property
    def running(self) -> int:
        """Requests of this key that run now, in all processes."""
        columns = self._place + _HEAD.size
        return sum(struct.unpack_from(f"={MAX_PROCESSES}i", self._memory, columns))

    def add_running(self, change: int) -> None:
        """Count requests of this process that begin (+1) or end (-1)."""
        (count,) = _COLUMN.unpack_from(self._memory, self._column)
        _COLUMN.pack_into(self._memory, self._column, count + change)
