import math

import pytest
import torch

from engine.kernels import greatest_of_rows

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [1, 15, 16, 17, 31, 97, 49_152])
def test_the_first_of_the_greatest_is_found(dtype: torch.dtype, size: int) -> None:
    """Numbers take few values, so most maxima are ties."""
    noise = torch.Generator().manual_seed(size)
    rows = torch.randint(-9, 9, (40, size), generator=noise).to(dtype)
    rows[:20] -= 30  # all below zero

    found = greatest_of_rows(rows)

    assert found.dtype is torch.int64
    assert found.tolist() == rows.float().argmax(-1).tolist()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_place_can_have_the_greatest(dtype: torch.dtype) -> None:
    rows = torch.eye(53, dtype=dtype)

    assert greatest_of_rows(rows).tolist() == list(range(53))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_a_wider_matrix_are_read_without_what_follows_them(dtype: torch.dtype) -> None:
    matrix = torch.zeros(3, 64, dtype=dtype)
    matrix[:, 50:] = 9.0
    matrix[:, 20] = 1.0

    assert greatest_of_rows(matrix[:, :50]).tolist() == [20, 20, 20]
    assert greatest_of_rows(matrix[:, :50:2]).tolist() == [10, 10, 10]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_without_a_greatest_number_have_an_index_within_them(dtype: torch.dtype) -> None:
    rows = torch.full((3, 40), -math.inf, dtype=dtype)
    rows[1] = math.nan
    rows[2, 30] = 5.0
    rows[2, 31] = math.nan

    assert greatest_of_rows(rows).tolist() == [0, 0, 30]


def test_there_may_be_no_rows() -> None:
    assert greatest_of_rows(torch.empty(0, 40)).tolist() == []
