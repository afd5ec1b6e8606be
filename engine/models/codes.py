"""The quantised tensors of a GGUF file as codes and scales, which our CPU kernels widen themselves.

The converted model has bfloat16 weights, since vLLM reads no others. Its codes lie beside them, so
that a kernel can read a third of the bytes and still compute with exactly these weights.

Source of the block formats: ggml (https://github.com/ggml-org/ggml, `src/ggml-common.h`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType as Kind

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Codes:
    """A weight (out, in) whose numbers are `code * scale + least`.

    Attributes:
        codes: Bytes of two codes of 4 bits, shape (out, in / 2), the even input in the low nibble;
            or signed codes of 8 bits, shape (out, in).
        scales: Shape (out, in / 32), or (out, in / 16) for codes of 8 bits.
        least: As `scales`; None for codes of 8 bits.
    """

    codes: Bytes | npt.NDArray[np.int8]
    scales: Floats
    least: Floats | None

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by name."""
        both = {"codes": self.codes, "scales": self.scales}
        return both if self.least is None else {**both, "least": self.least}


def read_codes(kind: Kind, data: Bytes) -> Codes | None:
    """Take the codes of a tensor; None if it has none, or of a kind that no kernel reads.

    Args:
        kind: How its blocks are stored.
        data: Its bytes, shape (out, bytes of a row).
    """
    read = _READS.get(kind)
    return None if read is None or data.ndim != 2 else read(data)


def _q4_0(data: Bytes) -> Codes:
    blocks = data.reshape(len(data), -1, 18)
    scales = _halves(blocks[..., :2])
    return Codes(_packed(_nibbles(blocks[..., 2:])), scales, -8 * scales)


def _q4_1(data: Bytes) -> Codes:
    blocks = data.reshape(len(data), -1, 20)
    return Codes(
        _packed(_nibbles(blocks[..., 4:])), _halves(blocks[..., :2]), _halves(blocks[..., 2:4])
    )


def _q8_0(data: Bytes) -> Codes:
    blocks = data.reshape(len(data), -1, 34)
    scales = np.repeat(_halves(blocks[..., :2]), 2, axis=-1)  # a scale for 32 inputs
    codes = np.ascontiguousarray(blocks[..., 2:]).view(np.int8)
    return Codes(codes.reshape(len(data), -1), scales, None)


def _q4_k(data: Bytes) -> Codes:
    """Eight groups of 32 in a block; scale and minimum of a group have six bits each."""
    blocks = data.reshape(len(data), -1, 144)
    low, middle, high = (blocks[..., begin : begin + 4] for begin in (4, 8, 12))
    scales = np.concatenate([low & 63, high & 15 | low >> 6 << 4], axis=-1)
    least = np.concatenate([middle & 63, high >> 4 | middle >> 6 << 4], axis=-1)
    codes = _nibbles(blocks[..., 16:].reshape(*blocks.shape[:2], 4, 32))
    return Codes(
        _packed(codes),
        _by_row(_halves(blocks[..., :2])[..., None] * scales),
        _by_row(_halves(blocks[..., 2:4])[..., None] * least) * np.float32(-1),
    )


def _q6_k(data: Bytes) -> Codes:
    """Sixteen groups of 16 in a block; a code's low four bits and high two lie apart."""
    blocks = data.reshape(len(data), -1, 210)
    low = blocks[..., :128].reshape(*blocks.shape[:2], 2, 1, 64)
    high = blocks[..., 128:192].reshape(*blocks.shape[:2], 2, 1, 32)
    shifts = np.array([0, 2, 4, 6], dtype=np.uint8).reshape(4, 1)
    lows = (low >> np.array([0, 4], dtype=np.uint8).reshape(2, 1) & 15).reshape(
        *blocks.shape[:2], 2, 4, 32
    )
    codes = (lows | (high >> shifts & 3) << 4).astype(np.int8) - np.int8(32)
    scales = np.ascontiguousarray(blocks[..., 192:208]).view(np.int8)
    each = _halves(blocks[..., 208:])[..., None] * scales
    return Codes(codes.reshape(len(data), -1), _by_row(each), None)


_READS: Mapping[Kind, Callable[[Bytes], Codes]] = {
    Kind.Q4_0: _q4_0,
    Kind.Q4_1: _q4_1,
    Kind.Q8_0: _q8_0,
    Kind.Q4_K: _q4_k,
    Kind.Q6_K: _q6_k,
}


def _halves(data: Bytes) -> Floats:
    """float16 numbers, shape (out, blocks), of their two bytes."""
    return np.ascontiguousarray(data).view(np.float16)[..., 0].astype(np.float32)


def _nibbles(data: Bytes) -> Bytes:
    """All low nibbles of the last axis, then all high ones."""
    return np.concatenate([data & 15, data >> 4], axis=-1)


def _by_row(numbers: Floats) -> Floats:
    return numbers.reshape(len(numbers), -1)


def _packed(codes: Bytes) -> Bytes:
    """Two codes of neighbouring inputs in a byte, shape (out, in / 2)."""
    by_row = codes.reshape(len(codes), -1)
    return by_row[:, ::2] | by_row[:, 1::2] << np.uint8(4)
