"""Limits whose state is in memory that all processes of this gateway share.

The memory is an array with one fixed-size entry per key: anonymous memory for one process, a
memory file for several. An entry has one column per process for its running requests. A process
clears its column when it starts, so the requests of a process that died are not counted.
"""

import fcntl
import hashlib
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.admission.keys import Caller
from gateway.admission.limits import (
    Standing,
    Taken,
    capped,
    charged,
    has_limits,
    rate_headers,
    raw_headers,
    refusal,
)

MAX_PROCESSES = 64
_ENTRIES = 2**16  # 18 MiB; the kernel allocates only the pages that are used
_HEAD = struct.Struct("=16sdd")  # key digest, arrival time of requests, arrival time of tokens
_COLUMN = struct.Struct("=i")
_ENTRY_BYTES = _HEAD.size + MAX_PROCESSES * _COLUMN.size
_EMPTY = bytes(16)


class LedgerFullError(Exception):
    """More keys are in use than the ledger has entries."""


def create_shared_ledger() -> int:
    """Create the memory for several processes; returns an inheritable file descriptor."""
    descriptor = os.memfd_create("specgate-limits", 0)
    os.ftruncate(descriptor, _ENTRIES * _ENTRY_BYTES)
    return descriptor


class Ledger:
    """Reads and writes the entries; no method blocks for long.

    Args:
        descriptor: From `create_shared_ledger`; None for a single process.
        process: This process's column, 0 <= process < MAX_PROCESSES; it is cleared.
        entries: Maximum number of keys.
    """

    def __init__(
        self, descriptor: int | None = None, *, process: int = 0, entries: int = _ENTRIES
    ) -> None:
        self._descriptor = descriptor
        self._entries = entries
        self._column = _HEAD.size + process * _COLUMN.size
        self._memory = mmap.mmap(-1 if descriptor is None else descriptor, entries * _ENTRY_BYTES)
        self._offsets: dict[str, int] = {}
        if descriptor is not None:
            self._clear_column()

    def _clear_column(self) -> None:
        """Discard the counts of the process that used this column before."""
        for offset in range(0, self._entries * _ENTRY_BYTES, _ENTRY_BYTES):
            if _COLUMN.unpack_from(self._memory, offset + self._column) != (0,):
                _COLUMN.pack_into(self._memory, offset + self._column, 0)

    def close(self) -> None:
        """Release the memory."""
        self._memory.close()

    @contextmanager
    def account(self, key_id: str) -> Iterator["Account"]:
        """The entry of a key, locked for the duration of the block."""
        offset = self._offset_of(key_id)
        with self._locked(offset):
            yield Account(self._memory, offset, offset + self._column)

    def _offset_of(self, key_id: str) -> int:
        offset = self._offsets.get(key_id)
        if offset is None:
            offset = self._offsets[key_id] = self._find(
                hashlib.sha256(key_id.encode()).digest()[:16]
            )
        return offset

    def _find(self, digest: bytes) -> int:
        """Open addressing: the first entry from the digest's home that is its own or free."""
        home = int.from_bytes(digest[:8], "little") % self._entries
        for step in range(self._entries):
            offset = (home + step) % self._entries * _ENTRY_BYTES
            with self._locked(offset):
                owner, _, _ = _HEAD.unpack_from(self._memory, offset)
                if owner == _EMPTY:
                    _HEAD.pack_into(self._memory, offset, digest, 0.0, 0.0)
                if owner in (_EMPTY, digest):
                    return offset
        raise LedgerFullError(f"more than {self._entries} keys have limits in use")

    @contextmanager
    def _locked(self, offset: int) -> Iterator[None]:
        if self._descriptor is None:
            yield
            return
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX, _ENTRY_BYTES, offset)
        try:
            yield
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, _ENTRY_BYTES, offset)


class Account:
    """One key's state; valid inside the block of `Ledger.account`."""

    __slots__ = ("_column", "_memory", "_offset")

    def __init__(self, memory: mmap.mmap, offset: int, column: int) -> None:
        self._memory = memory
        self._offset = offset
        self._column = column

    @property
    def standing(self) -> Standing:
        """What the key has used; arrival times in monotonic seconds."""
        _, requests_at, tokens_at = _HEAD.unpack_from(self._memory, self._offset)
        running = struct.unpack_from(f"={MAX_PROCESSES}i", self._memory, self._offset + _HEAD.size)
        return Standing(requests_at, tokens_at, sum(running))

    def set_arrivals(self, requests_at: float, tokens_at: float) -> None:
        """Replace both arrival times."""
        digest, _, _ = _HEAD.unpack_from(self._memory, self._offset)
        _HEAD.pack_into(self._memory, self._offset, digest, requests_at, tokens_at)

    def add_running(self, change: int) -> None:
        """Count a request of this process that begins (+1) or ends (-1)."""
        (count,) = _COLUMN.unpack_from(self._memory, self._column)
        _COLUMN.pack_into(self._memory, self._column, count + change)


class LocalLimits:
    """`Limits` in a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def peek(self, caller: Caller, *, now: float) -> None:
        """As `Limits.peek`."""
        if caller.key_id is None or not has_limits(caller):
            return
        with self._ledger.account(caller.key_id) as account:
            refused = refusal(caller.limits, account.standing, tokens=1, now=now)
        if refused is not None:
            raise refused

    async def take(self, caller: Caller, *, estimated_tokens: int, now: float) -> Taken | None:
        """As `Limits.take`."""
        if caller.key_id is None or not has_limits(caller):
            return None
        limits = caller.limits
        tokens = capped(limits, estimated_tokens)
        with self._ledger.account(caller.key_id) as account:
            standing = account.standing
            refused = refusal(limits, standing, tokens=tokens, now=now)
            if refused is not None:
                raise refused
            standing = charged(limits, standing, requests=1, tokens=tokens, now=now)
            account.set_arrivals(standing.requests_at, standing.tokens_at)
            account.add_running(1)
        headers = raw_headers(rate_headers(limits, standing, now=now))
        return Taken(caller.key_id, limits, tokens, headers)

    def settle(self, took: Taken, *, used_tokens: int | None, now: float) -> None:
        """As `Limits.settle`."""
        with self._ledger.account(took.key_id) as account:
            if used_tokens is not None:
                extra = used_tokens - took.estimated_tokens
                standing = charged(took.limits, account.standing, requests=0, tokens=extra, now=now)
                account.set_arrivals(standing.requests_at, standing.tokens_at)
            account.add_running(-1)
