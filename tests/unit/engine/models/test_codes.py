"""Codes give the numbers that gguf's own dequantiser gives, bit for bit."""

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from gguf import dequantize, quantize
from gguf.constants import GGML_QUANT_SIZES

from engine.models.codes import Codes, read_codes

# Where float16 numbers lie in a block.
HALVES = {
    Kind.Q4_0: [0],
    Kind.Q4_1: [0, 2],
    Kind.Q8_0: [0],
    Kind.Q4_K: [0, 2],
    Kind.Q6_K: [208],
}


def random_blocks(kind: Kind, *, rows: int, blocks: int) -> np.ndarray:
    """Any bytes are a block, as long as its float16 numbers are finite."""
    random = np.random.default_rng(5)
    size = GGML_QUANT_SIZES[kind][1]
    data = random.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
    for at in HALVES[kind]:
        halves = (random.standard_normal((rows, blocks, 1)) * 0.01).astype(np.float16)
        data[..., at : at + 2] = halves.view(np.uint8)
    return data.reshape(rows, -1)


def widened(codes: Codes) -> np.ndarray:
    """What a kernel makes of codes: an exact product, then one rounded addition."""
    rows = len(codes.codes)
    if codes.least is None:
        by_group = codes.codes.reshape(rows, -1, 16).astype(np.float32)
        return (by_group * codes.scales[..., None]).reshape(rows, -1)
    numbers = np.stack([codes.codes & 15, codes.codes >> 4], axis=-1)
    by_group = numbers.reshape(rows, -1, 32).astype(np.float64)
    product = by_group * codes.scales[..., None].astype(np.float64)
    return (product + codes.least[..., None]).astype(np.float32).reshape(rows, -1)


@pytest.mark.parametrize("kind", list(HALVES), ids=lambda kind: kind.name)
def test_codes_widen_to_the_dequantised_numbers(kind: Kind) -> None:
    data = random_blocks(kind, rows=7, blocks=3)

    codes = read_codes(kind, data)

    assert codes is not None
    found = widened(codes)
    expected = dequantize(data, kind)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q4_1, Kind.Q8_0], ids=lambda kind: kind.name)
def test_a_quantised_weight_stays_near_itself(kind: Kind) -> None:
    weight = np.random.default_rng(3).standard_normal((5, 64), dtype=np.float32)

    codes = read_codes(kind, quantize(weight, kind))

    assert codes is not None
    np.testing.assert_allclose(widened(codes), weight, atol=0.4)


def test_codes_are_smaller_than_bfloat16() -> None:
    for kind, most_bits in ((Kind.Q4_1, 6), (Kind.Q4_K, 6), (Kind.Q8_0, 10), (Kind.Q6_K, 10)):
        codes = read_codes(kind, random_blocks(kind, rows=4, blocks=2))

        assert codes is not None
        numbers = widened(codes).size
        assert sum(array.nbytes for array in codes.arrays().values()) * 8 / numbers == most_bits


def test_other_tensors_have_no_codes() -> None:
    assert read_codes(Kind.F32, np.zeros((2, 64), dtype=np.float32)) is None
    assert read_codes(Kind.Q5_0, np.zeros((2, 22), dtype=np.uint8)) is None
    assert read_codes(Kind.Q8_0, np.zeros(34, dtype=np.uint8)) is None  # one row only
