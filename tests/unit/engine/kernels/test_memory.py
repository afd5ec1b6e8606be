"""Without memory a kernel raises MemoryError; in a parallel region it would end the process."""

import subprocess
import sys

import pytest

from engine.kernels import is_supported

pytestmark = pytest.mark.skipif(
    not is_supported(), reason="needs a processor with AVX2 and FMA, or with AVX-512"
)

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
ATTENTION = """
torch.set_num_threads({threads})
requests, context, dim = {requests}, {context}, 512
blocks = -(-context // 32)
cache = torch.zeros(blocks, 1, 64, dim)
queries = torch.zeros(requests, 12, dim)
outputs = torch.empty_like(queries)
attention = PagedAttention(*cache.chunk(2, dim=2), heads=12, scale=1.0)
table = torch.arange(blocks, dtype=torch.int32).expand(requests, -1)
starts = torch.arange(requests + 1, dtype=torch.int32)
step = StepRequests(starts, torch.full((requests,), context, dtype=torch.int32), table)
take_all_memory()
try:
    attention(queries, step, outputs)
except MemoryError:
    end(b"MemoryError")
end(b"computed")
"""
LINEAR = """
weight, rows = torch.ones(8, 8), torch.ones(100, 8)
layer = PackedLinear(weight)
take_all_memory()
try:
    layer(rows)
except MemoryError:
    end(b"MemoryError")
end(b"computed")
"""


def run(script: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", PREPARE + script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.timeout(60)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("requests", "context"), [(64, 40), (1, 40_000)], ids=["pieces", "a long context"]
)
def test_attention_without_memory_raises(requests: int, context: int, threads: int) -> None:
    script = ATTENTION.format(requests=requests, context=context, threads=threads)

    assert run(script) == (0, "MemoryError", "")


@pytest.mark.timeout(60)
def test_a_product_needs_no_memory_but_its_result() -> None:
    assert run(LINEAR) == (0, "computed", "")
