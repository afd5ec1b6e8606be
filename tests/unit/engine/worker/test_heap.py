import ctypes
import gc
import sys
from pathlib import Path

import pytest

from engine.worker.heap import find_trim

_BLOCK_BYTES = 2**14
_BLOCKS = 4_000


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc; needs glibc")
def test_holes_between_live_blocks_are_returned() -> None:
    trim = find_trim()
    assert trim is not None
    # Every second block stays alive, so that no free pages reach the top of the heap.
    blocks = [ctypes.create_string_buffer(b"x" * (_BLOCK_BYTES - 1)) for _ in range(_BLOCKS)]
    held = blocks[::2]
    del blocks
    gc.collect()
    before = resident_bytes()

    assert trim() == 1

    assert before - resident_bytes() > _BLOCKS // 2 * _BLOCK_BYTES // 2
    assert all(block.value[:1] == b"x" for block in held)
