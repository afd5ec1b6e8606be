"""Runs a script in a process that has no memory left from some point on."""

import subprocess
import sys

# Takes all memory in pieces of 16 KiB, so that small allocations still succeed: Python's, and those
# before a parallel region. A piece of attention needs 24 KiB, the sums of a product 64 KiB.
PREPARE = """
import ctypes, resource, torch
from engine.kernels import PackedLinear, PagedAttention, StepRequests

def take_all_memory():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * 4096, -1))
    for size in (1 << 20, 1 << 14):
        while libc.malloc(size):
            pass

def end(word):
    import os
    os.write(1, word)
    os._exit(0)
"""


def run_exhausted(script: str) -> tuple[int, str, str]:
    """Run a script that calls `take_all_memory` and `end`; return its status and what it wrote."""
    done = subprocess.run(
        [sys.executable, "-c", PREPARE + script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr
