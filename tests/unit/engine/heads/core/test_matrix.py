"""Products compared with float64, within the rounding of 15-bit inputs."""

import pytest
import torch
from torch import Tensor

from engine._core.heads import Matrix

UNIT = 0.01


def made(out: int, enters: int, seed: int = 3) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(seed)
    values = torch.randint(-127, 128, (out, enters), generator=draws, dtype=torch.int8)
    return values, torch.rand(out, generator=draws) * UNIT


def multiply(values: Tensor, scales: Tensor, inputs: Tensor, kernel: str | None = None) -> Tensor:
    outputs = torch.empty(inputs.shape[0], values.shape[0])
    Matrix(values, scales, kernel)(inputs, outputs)
    return outputs


@pytest.mark.parametrize("kernel", Matrix.kernels())
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 16, 33])
@pytest.mark.parametrize(("out", "enters"), [(64, 48), (37, 32), (5, 33), (1, 1), (6, 7)])
def test_products_of_any_shape(rows: int, out: int, enters: int, kernel: str) -> None:
    values, scales = made(out, enters)
    inputs = torch.randn(rows, enters, generator=torch.Generator().manual_seed(4))

    found = multiply(values, scales, inputs, kernel)

    expected = inputs.double() @ (values.double() * scales.double()[:, None]).t()
    assert torch.allclose(found.double(), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kernel", Matrix.kernels())
def test_all_kernels_give_the_same_products(kernel: str) -> None:
    values, scales = made(65, 130)
    inputs = torch.randn(19, 130, generator=torch.Generator().manual_seed(4))

    assert torch.equal(multiply(values, scales, inputs, kernel), multiply(values, scales, inputs))


def test_an_unknown_kernel_is_rejected() -> None:
    with pytest.raises(ValueError, match="no kernel mmx"):
        Matrix(*made(8, 16), "mmx")


@pytest.mark.parametrize("kernel", Matrix.kernels())
@pytest.mark.parametrize("enters", [512, 4096, 40_000])
def test_the_largest_products_do_not_overflow(enters: int, kernel: str) -> None:
    values = torch.full((1, enters), -127, dtype=torch.int8)

    found = multiply(values, torch.ones(1), torch.full((1, enters), -3.0), kernel)

    assert found.item() == pytest.approx(127 * 3.0 * enters, rel=1e-3)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_an_input_that_is_not_finite_counts_as_zeros(bad: float) -> None:
    values, scales = made(8, 16)
    inputs = torch.ones(3, 16)
    inputs[1, 5] = bad

    found = multiply(values, scales, inputs)

    assert not found[1].any()
    assert torch.equal(found[0], found[2])
    assert found[0].any()


def test_mismatched_shapes_are_rejected() -> None:
    values, scales = made(8, 16)
    matrix = Matrix(values, scales)

    with pytest.raises(ValueError, match="scales"):
        Matrix(values, scales[:7])
    with pytest.raises(ValueError, match="inputs"):
        matrix(torch.ones(1, 15), torch.empty(1, 8))
    with pytest.raises(ValueError, match="outputs"):
        matrix(torch.ones(2, 16), torch.empty(1, 8))
    with pytest.raises(TypeError):
        matrix(torch.ones(1, 16, dtype=torch.float64), torch.empty(1, 8))
