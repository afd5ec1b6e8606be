import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.kernels import PagedAttention, StepRequests, attention_kernels

DTYPES = [torch.float32, torch.bfloat16]
KERNELS = [(dtype, kernel) for dtype in DTYPES for kernel in attention_kernels(dtype)]

pytestmark = pytest.mark.skipif(
    not KERNELS, reason="needs a processor with AVX2 and FMA, or with AVX-512"
)


@dataclass
class Case:
    """Requests as (queries, context); the context includes the queries."""

    requests: list[tuple[int, int]]
    dtype: torch.dtype = torch.float32
    kernel: str | None = None
    group: int = 3
    kv_heads: int = 2
    dim: int = 32
    block: int = 32

    def __post_init__(self) -> None:
        random = torch.Generator().manual_seed(3)
        heads, width = self.group * self.kv_heads, self.dim
        counts = [-(-context // self.block) for _, context in self.requests]
        order = torch.randperm(sum(counts), generator=random).to(torch.int32)
        self.table = torch.zeros(len(counts), max(counts), dtype=torch.int32)
        shape = (sum(counts), self.kv_heads, 2 * self.block, width)
        # Slots after a request's last token hold stale keys.
        self.cache = torch.randn(shape, generator=random).to(self.dtype)
        total = sum(queries for queries, _ in self.requests)
        self.queries = torch.randn(total, heads, width, generator=random).to(self.dtype)
        for row, blocks in enumerate(torch.split(order, counts)):
            self.table[row, : len(blocks)] = blocks

    def keys_and_values(self, row: int, context: int) -> tuple[Tensor, Tensor]:
        """Return those of a request in float64, (kv_heads, context, dim)."""
        keys, values = self.cache.double().chunk(2, dim=2)
        keys = keys.reshape(-1, self.kv_heads, self.dim, self.block).transpose(2, 3)
        blocks = self.table[row, : -(-context // self.block)]
        return tuple(
            torch.cat([kind[block] for block in blocks], dim=1)[:, :context]
            for kind in (keys, values)
        )

    def expected(self) -> Tensor:
        return self._weighed(lambda values: values)

    def sizes(self) -> Tensor:
        """Return the results for the absolute values, a scale for errors."""
        return self._weighed(Tensor.abs)

    def _weighed(self, change: Callable[[Tensor], Tensor]) -> Tensor:
        found, first = [], 0
        for row, (queries, context) in enumerate(self.requests):
            keys, values = self.keys_and_values(row, context)
            some = self.queries[first : first + queries].double()
            some = some.reshape(queries, self.kv_heads, self.group, self.dim)
            scores = torch.einsum("qhgd,htd->qhgt", some, keys) * self.scale
            seen = torch.arange(context) <= torch.arange(queries)[:, None] + context - queries
            scores = scores.masked_fill(~seen[:, None, None], -math.inf)
            weighed = torch.einsum("qhgt,htd->qhgd", scores.softmax(-1), change(values))
            found.append(weighed.reshape(queries, -1, self.dim))
            first += queries
        return torch.cat(found)

    @property
    def scale(self) -> float:
        return float(self.dim**-0.5)

    def run(self, queries: Tensor | None = None, outputs: Tensor | None = None) -> Tensor:
        keys, values = self.cache.chunk(2, dim=2)
        heads = self.group * self.kv_heads
        attention = PagedAttention(keys, values, heads=heads, scale=self.scale, kernel=self.kernel)
        queries = self.queries if queries is None else queries
        outputs = torch.full_like(self.queries, math.nan) if outputs is None else outputs
        attention(queries, self.step(), outputs)
        return outputs

    def step(self) -> StepRequests:
        starts = torch.tensor([0] + [queries for queries, _ in self.requests]).cumsum(0)
        lengths = torch.tensor([context for _, context in self.requests])
        return StepRequests(starts.to(torch.int32), lengths.to(torch.int32), self.table)

    def check(self) -> None:
        # The error of float32 sums plus one rounding of weights or results to the dtype.
        bound = self.sizes() * torch.finfo(self.dtype).eps + 5e-6
        assert bool(((self.run().double() - self.expected()).abs() <= bound).all())


REQUEST = st.tuples(st.integers(1, 40), st.integers(0, 600)).map(lambda r: (r[0], sum(r)))


@settings(max_examples=150, deadline=None)
@given(
    requests=st.lists(REQUEST, min_size=1, max_size=4),
    which=st.integers(0, max(0, len(KERNELS) - 1)),
    group=st.sampled_from([1, 3, 8]),
    kv_heads=st.integers(1, 3),
    dim=st.sampled_from([32, 64, 96]),
    block=st.sampled_from([32, 96, 128]),
)
def test_attention_matches_the_formula(
    requests: list[tuple[int, int]], which: int, group: int, kv_heads: int, dim: int, block: int
) -> None:
    dtype, kernel = KERNELS[which]
    Case(requests, dtype, kernel, group, kv_heads, dim, block).check()


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS)
@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_batch_invariant(dtype: torch.dtype, kernel: str, threads: int) -> None:
    """Bit-identical for a whole prompt, its parts and single tokens, with any number of threads."""
    context = 700
    whole = Case([(context, context)], dtype, kernel)
    expected, before = whole.run(), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for first, last in [(0, 1), (0, 13), (250, 262), (255, 256), (256, 300), (690, 700)]:
            part = Case([(last - first, last)], dtype, kernel)
            part.cache, part.table = whole.cache, whole.table
            part.queries = whole.queries[first:last]
            assert torch.equal(part.run(), expected[first:last])
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS)
def test_strided_queries_are_supported(dtype: torch.dtype, kernel: str) -> None:
    case = Case([(5, 40), (1, 300)], dtype, kernel)
    expected = case.run()
    wide = torch.zeros(6, 20, 32, dtype=dtype)
    wide[:, 7:13] = case.queries
    into = torch.zeros(9, 6, 32, dtype=dtype)

    case.run(wide[:, 7:13], into[2:8])

    assert torch.equal(into[2:8], expected)
    assert not into[:2].any()
    assert not into[8:].any()


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS)
def test_large_scores_do_not_overflow(dtype: torch.dtype, kernel: str) -> None:
    case = Case([(4, 300)], dtype, kernel)
    case.queries *= 300

    found = case.run()

    assert bool(found.isfinite().all())
    torch.testing.assert_close(found.double(), case.expected(), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS)
def test_nan_stays_in_its_row(dtype: torch.dtype, kernel: str) -> None:
    case = Case([(5, 300)], dtype, kernel)
    expected = case.run()
    case.queries[3, 2, 7] = math.nan

    found = case.run()

    assert bool(found[3, 2].isnan().all())
    found[3, 2] = expected[3, 2]
    assert torch.equal(found, expected)


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS)
def test_values_after_the_end_of_a_request_are_ignored(dtype: torch.dtype, kernel: str) -> None:
    case = Case([(3, 45)], dtype, kernel)
    expected = case.run()
    keys, values = case.cache[int(case.table[0, 1])].chunk(2, dim=1)
    keys.reshape(2, 32, 32)[:, :, 13:] = math.nan
    values[:, 13:] = math.nan

    assert torch.equal(case.run(), expected)


def test_mismatched_shapes_and_dtypes_are_rejected() -> None:
    case = Case([(3, 45)])
    keys, values = case.cache.chunk(2, dim=2)

    with pytest.raises(ValueError, match="cache: got"):
        PagedAttention(keys, values, heads=5, scale=1.0)
    with pytest.raises(ValueError, match="blocks of 31 tokens"):
        PagedAttention(keys[:, :, :31], values[:, :, :31], heads=6, scale=1.0)
    with pytest.raises(ValueError, match="kernel: no mmx"):
        PagedAttention(keys, values, heads=6, scale=1.0, kernel="mmx")
    with pytest.raises(ValueError, match="kernel: no None"):
        PagedAttention(keys.half(), values.half(), heads=6, scale=1.0)
    with pytest.raises(ValueError, match=r"got torch\.float64"):
        case.run(case.queries.double())
    with pytest.raises(ValueError, match="lengths: got"):
        StepRequests(torch.zeros(2, dtype=torch.int32), torch.zeros(1), case.table)
