import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from engine.kernels import (
    Codes,
    PackedLinear,
    coded_kernels,
    is_supported,
    linear_kernels,
)

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


def test_codes_widen_as_they_say() -> None:
    four = Codes(
        torch.tensor([[0x10] * 16], dtype=torch.uint8),
        torch.full((1, 1), 0.5),
        torch.full((1, 1), -2.0),
    )
    eight = Codes(
        torch.tensor([[-3] * 16 + [5] * 16], dtype=torch.int8), torch.tensor([[1.0, 0.25]])
    )

    assert four.widened().tolist() == [[-2.0, -1.5] * 16]
    assert eight.widened().tolist() == [[-3.0] * 16 + [1.25] * 16]
    assert (four.bits, four.inputs, eight.bits, eight.inputs) == (4, 32, 8, 32)


CODED = coded_kernels()


def coded(out: int, groups: int, *, bits: int, seed: int = 3) -> tuple[Tensor, Codes]:
    """A weight in bfloat16, and its codes."""
    generator = torch.Generator().manual_seed(seed)
    scales = (torch.rand(out, groups, generator=generator) * 0.01).half().float()
    codes = torch.randint(0, 256, (out, groups * 16), generator=generator)
    if bits == 8:
        found = Codes((codes - 128).to(torch.int8), scales)
    else:
        least = -(torch.rand(out, groups, generator=generator) * 0.05).half().float()
        found = Codes(codes.to(torch.uint8), scales, least)
    return found.widened(), found


@pytest.mark.skipif(not CODED, reason="needs a processor with instructions for bfloat16")
@settings(max_examples=150, deadline=None)
@given(
    parts=st.lists(st.tuples(st.integers(1, 90), st.sampled_from([4, 8])), min_size=1, max_size=3),
    blocks=st.integers(1, 12),
    plain=st.integers(0, 40),
    count=st.integers(1, 130),
    which=st.integers(0, max(0, len(CODED) - 1)),
)
def test_codes_change_no_bit_of_a_product(
    parts: list[tuple[int, int]], blocks: int, plain: int, count: int, which: int
) -> None:
    made = [
        coded(out, blocks * (1 if bits == 4 else 2), bits=bits, seed=seed)
        for seed, (out, bits) in enumerate(parts)
    ]
    rest = random(plain, 32 * blocks, dtype=torch.bfloat16)
    weight = torch.cat([*(weight for weight, _ in made), rest])
    rows = random(count, 32 * blocks, dtype=torch.bfloat16, seed=4)

    expected = PackedLinear(weight, CODED[which])
    found = PackedLinear(weight, CODED[which], codes=[codes for _, codes in made])

    assert torch.equal(found(rows), expected(rows))
    assert found.bytes <= expected.bytes
    if parts[0][0] >= 32:  # a whole panel
        assert found.bytes < expected.bytes


@pytest.mark.skipif(not CODED, reason="needs a processor with instructions for bfloat16")
@pytest.mark.parametrize("kernel", CODED)
@pytest.mark.parametrize("bits", [4, 8])
def test_products_of_codes_are_batch_invariant(bits: int, kernel: str) -> None:
    weight, codes = coded(70, 4, bits=bits)
    layer = PackedLinear(weight, kernel, codes=[codes])
    rows = random(200, codes.inputs, dtype=torch.bfloat16, seed=4)

    whole = layer(rows)

    for count in range(1, 200):
        assert torch.equal(layer(rows[:count]), whole[:count])


@pytest.mark.parametrize("bits", [4, 8])
def test_a_panel_whose_codes_say_otherwise_keeps_its_numbers(bits: int) -> None:
    weight, codes = coded(96, 4, bits=bits)
    weight[40, 3] += 0.5
    rows = random(5, codes.inputs, dtype=torch.bfloat16, seed=4)

    found, expected = PackedLinear(weight, codes=[codes]), PackedLinear(weight)

    assert torch.equal(found(rows), expected(rows))
    if CODED:
        panels = 3
        assert found.bytes / expected.bytes > 1 / panels


@pytest.mark.parametrize(
    "codes",
    [
        Codes(torch.zeros(20, 16, dtype=torch.uint8), torch.ones(20, 1)),
        Codes(torch.zeros(20, 16, dtype=torch.uint8), torch.ones(20, 2), torch.ones(20, 2)),
        Codes(torch.zeros(20, 32, dtype=torch.int8), torch.ones(20, 2).half()),
        Codes(torch.zeros(20, 32, dtype=torch.int8), torch.ones(20, 2), torch.ones(20, 2)),
        Codes(torch.zeros(20, 32, dtype=torch.int16), torch.ones(20, 2)),
        Codes(torch.zeros(20, 64, dtype=torch.int8), torch.ones(20, 4)),
        Codes(torch.zeros(21, 32, dtype=torch.int8), torch.ones(21, 2)),
        Codes(torch.zeros(32, 20, dtype=torch.int8).t(), torch.ones(20, 2)),
    ],
)
@pytest.mark.skipif(not CODED, reason="needs a processor with instructions for bfloat16")
def test_codes_of_another_shape_or_dtype_are_rejected(codes: Codes) -> None:
    with pytest.raises(ValueError, match="codes"):
        PackedLinear(torch.ones(20, 32).bfloat16(), codes=[codes])
