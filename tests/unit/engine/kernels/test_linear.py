import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from engine.kernels import PackedLinear, is_supported, linear_kernels

pytestmark = pytest.mark.skipif(
    not is_supported(), reason="needs a processor with AVX2 and FMA, or with AVX-512"
)

DTYPES = [torch.float32, torch.bfloat16]
KERNELS = [(dtype, kernel) for dtype in DTYPES for kernel in linear_kernels(dtype)]


def random(*shape: int, dtype: torch.dtype, seed: int = 3) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def exact(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return functional.linear(
        rows.double(), weight.double(), None if bias is None else bias.double()
    )


def assert_close(found: Tensor, rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> None:
    """Allow the error of float32 sums plus one rounding to the dtype."""
    sizes = rows.double().abs() @ weight.double().abs().t()
    expected = exact(rows, weight, bias)
    rounding = expected.abs() * torch.finfo(found.dtype).eps
    bound = sizes * rows.shape[-1] * torch.finfo(torch.float32).eps + rounding
    assert bool(((found.double() - expected).abs() <= bound).all())


@settings(max_examples=150, deadline=None)
@given(
    out=st.integers(1, 100),
    enters=st.integers(1, 150),
    count=st.integers(1, 220),
    has_bias=st.booleans(),
    which=st.integers(0, len(KERNELS) - 1),
)
def test_products_of_any_shape(
    out: int, enters: int, count: int, has_bias: bool, which: int
) -> None:
    dtype, kernel = KERNELS[which]
    weight, rows = random(out, enters, dtype=dtype), random(count, enters, dtype=dtype, seed=4)
    bias = random(out, dtype=dtype, seed=5) if has_bias else None

    found = PackedLinear(weight, kernel)(rows, bias)

    assert found.dtype == dtype
    assert found.shape == (count, out)
    assert_close(found, rows, weight, bias)


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS)
def test_products_are_batch_invariant(dtype: torch.dtype, kernel: str) -> None:
    layer = PackedLinear(random(70, 130, dtype=dtype), kernel)
    rows = random(200, 130, dtype=dtype, seed=4)

    whole = layer(rows)

    for count in range(1, 200):
        assert torch.equal(layer(rows[:count]), whole[:count])
    assert torch.equal(layer(rows[100:103]), whole[100:103])


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS)
def test_one_thread_gives_the_same_products(dtype: torch.dtype, kernel: str) -> None:
    layer = PackedLinear(random(70, 130, dtype=dtype), kernel)
    rows = random(5, 130, dtype=dtype, seed=4)
    expected, threads = layer(rows), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = layer(rows)
    finally:
        torch.set_num_threads(threads)

    assert torch.equal(found, expected)


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS)
def test_strided_rows_are_supported(dtype: torch.dtype, kernel: str) -> None:
    layer = PackedLinear(random(40, 64, dtype=dtype), kernel)
    wide = random(6, 200, dtype=dtype, seed=4)

    assert torch.equal(layer(wide[:, 50:114]), layer(wide[:, 50:114].contiguous()))
    assert torch.equal(layer(wide[::2, :64]), layer(wide[::2, :64].contiguous()))
    turned = random(64, 6, dtype=dtype, seed=5).t()
    assert torch.equal(layer(turned), layer(turned.contiguous()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_rows_give_no_products(dtype: torch.dtype) -> None:
    layer = PackedLinear(random(20, 30, dtype=dtype))

    assert layer(torch.empty(0, 30, dtype=dtype)).shape == (0, 20)


@pytest.mark.parametrize(("dtype", "kernel"), KERNELS)
def test_values_that_are_not_finite_stay_in_their_row(dtype: torch.dtype, kernel: str) -> None:
    layer = PackedLinear(random(40, 30, dtype=dtype).abs() + 1, kernel)
    rows = random(4, 30, dtype=dtype, seed=4)
    expected = layer(rows)
    spoiled = rows.clone()
    spoiled[1, 7], spoiled[2, 7] = float("nan"), float("inf")

    found = layer(spoiled)

    assert bool(found[1].isnan().all())
    assert bool(found[2].isinf().all())
    assert torch.equal(found[[0, 3]], expected[[0, 3]])


@pytest.mark.parametrize("kernel", linear_kernels(torch.bfloat16))
def test_bfloat16_is_rounded_to_nearest_and_ties_to_even(kernel: str) -> None:
    # With one input each product is exact before rounding; 1 + 3 * 2^-8 is a tie.
    weight = torch.tensor([[1.0], [3.0], [1.5], [-1.5]]).bfloat16()
    rows = torch.tensor([[1.0 + 2**-7], [1.0 + 3 * 2**-7]]).bfloat16()

    found = PackedLinear(weight, kernel)(rows)

    assert torch.equal(found, exact(rows, weight).bfloat16())


@pytest.mark.parametrize(
    ("rows", "bias"),
    [
        (torch.ones(2, 31), None),
        (torch.ones(2, 30, dtype=torch.bfloat16), None),
        (torch.ones(2, 30), torch.ones(19)),
        (torch.ones(2, 30), torch.ones(20, dtype=torch.bfloat16)),
    ],
)
def test_mismatched_shapes_and_dtypes_are_rejected(rows: Tensor, bias: Tensor | None) -> None:
    layer = PackedLinear(torch.ones(20, 30))

    with pytest.raises(ValueError, match=r"expected torch\.float32"):
        layer(rows, bias)
