"""Without memory a step raises; an exception in a parallel region would end the process."""

import pytest

from engine.kernels import is_supported
from tests.unit.engine.kernels.core.exhausted import run_exhausted

pytestmark = pytest.mark.skipif(
    not is_supported(), reason="needs a processor with AVX2 and FMA, or with AVX-512"
)

DECODER = """
from engine._core.kernels import Requests
from engine.kernels import Decoder, DecoderLayer, DecoderSizes, Linear
torch.set_num_threads({threads})
weight = lambda out, into: Linear(PackedLinear(torch.ones(out, into)))
norm, sizes = torch.ones(512), DecoderSizes(512, 512, 8, 8, 64, 1.0, 1e-5)
layer = DecoderLayer(
    weight(1536, 512), weight(512, 512), weight(1024, 512), weight(512, 512), norm, norm
)
tables = dict(embeddings=torch.ones(4, 512), angles=torch.ones(9, 64), norm=norm)
decoder = Decoder(sizes, [layer], **tables)
ids, positions = torch.zeros(600, dtype=torch.int32), torch.zeros(600, dtype=torch.int64)
decoder(ids[:1], positions[:1])
none = Requests(0, 0, 0, 0, 0)
take_all_memory()
try:
    decoder._core.run(600, ids.data_ptr(), 0, positions.data_ptr(), 0, none, 0, [])
except MemoryError:
    end(b"MemoryError")
end(b"computed")
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_step_without_memory_raises(threads: int) -> None:
    assert run_exhausted(DECODER.format(threads=threads)) == (0, "MemoryError", "")
