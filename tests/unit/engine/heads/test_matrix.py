import pytest
import torch
from torch.nn import functional

from engine.heads.matrix import FEW_ROWS, Matrix


@pytest.mark.parametrize("rows", [0, 1, 3, FEW_ROWS, FEW_ROWS + 1])
@pytest.mark.parametrize(("out", "enters"), [(64, 48), (37, 32), (5, 33), (1, 16), (6, 7)])
def test_bfloat16_products_of_any_shape(rows: int, out: int, enters: int) -> None:
    draws = torch.Generator().manual_seed(3)
    weight = torch.randn(out, enters, generator=draws).bfloat16()
    entering = torch.randn(rows, enters, generator=draws).bfloat16()

    found = Matrix(weight)(entering)

    expected = functional.linear(entering.double(), weight.double())
    assert found.dtype == torch.bfloat16
    assert found.shape == (rows, out)
    # Rounding of int8 weights: half of 1/127 for each product.
    bound = 0.02 * entering.double().abs().sum(-1, keepdim=True) + 0.05
    assert bool(((found - expected).abs() <= bound).all())


def test_a_zero_weight_gives_zeros() -> None:
    matrix = Matrix(torch.zeros(16, 16, dtype=torch.bfloat16))

    assert matrix(torch.ones(1, 16, dtype=torch.bfloat16)).tolist() == [[0.0] * 16]
