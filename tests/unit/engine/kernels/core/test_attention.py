"""Without memory attention raises; an exception in a parallel region would end the process."""

import pytest

from engine.kernels import is_supported
from tests.unit.engine.kernels.core.exhausted import run_exhausted

pytestmark = pytest.mark.skipif(
    not is_supported(), reason="needs a processor with AVX2 and FMA, or with AVX-512"
)

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


@pytest.mark.timeout(60)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("requests", "context"), [(64, 40), (1, 40_000)], ids=["pieces", "a long context"]
)
def test_attention_without_memory_raises(requests: int, context: int, threads: int) -> None:
    script = ATTENTION.format(requests=requests, context=context, threads=threads)

    assert run_exhausted(script) == (0, "MemoryError", "")
