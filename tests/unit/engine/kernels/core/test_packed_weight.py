"""A product's sums need no memory that could be missing in a parallel region."""

import pytest

from engine.kernels import is_supported
from tests.unit.engine.kernels.core.exhausted import run_exhausted

pytestmark = pytest.mark.skipif(
    not is_supported(), reason="needs a processor with AVX2 and FMA, or with AVX-512"
)

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


@pytest.mark.timeout(60)
def test_a_product_needs_no_memory_but_its_result() -> None:
    assert run_exhausted(LINEAR) == (0, "computed", "")
