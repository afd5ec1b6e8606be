"""A linear layer whose weight is packed for the kernel of this processor."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch  # first: the core uses the OpenMP runtime that torch loads
from torch import Tensor

from engine._core.kernels import (
    PackedBFloat16,
    PackedFloat32,
    PackedPairs,
    are_pairs_fast,
    tiles,
)

__all__ = [
    "Codes",
    "PackedLinear",
    "coded_kernels",
    "is_supported",
    "linear_kernels",
    "prefers_pairs",
    "tiles",
]

_Packed = PackedFloat32 | PackedBFloat16 | PackedPairs


def prefers_pairs() -> bool:
    """Tell whether kernels that multiply pairs of bfloat16 are faster here than float32's."""
    return tiles() == "usable" or are_pairs_fast()


def _kinds(dtype: torch.dtype) -> tuple[type[_Packed], ...]:
    """What packs a weight of a dtype, best first."""
    if dtype is torch.float32:
        return (PackedFloat32,)
    if dtype is not torch.bfloat16:
        return ()
    if prefers_pairs():
        return (PackedPairs, PackedBFloat16)
    return (PackedBFloat16, PackedPairs)


def linear_kernels(dtype: torch.dtype) -> list[str]:
    """Return the names of this processor's kernels for a dtype, best first; empty for none."""
    return [name for kind in _kinds(dtype) for name in kind.kernels()]


def coded_kernels() -> list[str]:
    """Return the names of this processor's kernels for bfloat16 that read codes, best first."""
    reading = ("amx", "avx512_bf16", "avx512_fma")
    return [name for name in linear_kernels(torch.bfloat16) if name in reading]


def is_supported() -> bool:
    """Tell whether this processor has kernels: AVX2 with FMA, or AVX-512."""
    return bool(linear_kernels(torch.float32))


@dataclass(frozen=True, slots=True)
class Codes:
    """Rows of a weight as small integers: a number is `code * scale + least`.

    Attributes:
        codes: uint8, shape (rows, in / 2): two codes of 4 bits, the even input in the low nibble;
            or int8, shape (rows, in).
        scales: float32, shape (rows, in / 32), or (rows, in / 16) for codes of 8 bits.
        least: As `scales`; None for codes of 8 bits.
    """

    codes: Tensor
    scales: Tensor
    least: Tensor | None = None

    @property
    def bits(self) -> int:
        """4 or 8."""
        return 4 if self.codes.dtype is torch.uint8 else 8

    @property
    def inputs(self) -> int:
        """Numbers of a row."""
        return int(self.codes.shape[1]) * (8 // self.bits)

    def widened(self) -> Tensor:
        """Return the numbers, bfloat16, shape (rows, in)."""
        codes = self.codes
        if self.least is not None:
            codes = torch.stack([codes & 15, codes >> 4], dim=-1).flatten(1)
        numbers = codes.float().unflatten(1, (self.scales.shape[1], -1)) * self.scales[..., None]
        if self.least is not None:
            numbers += self.least[..., None]
        return numbers.flatten(1).bfloat16()

    def check(self) -> None:
        """Check shapes and dtypes.

        Raises:
            ValueError: One is wrong.
        """
        is_four = self.bits == 4
        shape = (self.codes.shape[0], self.inputs // (32 if is_four else 16))
        fits = self.inputs % (32 if is_four else 16) == 0 and self.scales.shape == shape
        fits &= self.codes.dtype in (torch.uint8, torch.int8)
        fits &= self.scales.dtype is torch.float32 and (self.least is not None) is is_four
        if self.least is not None:
            fits &= self.least.shape == shape and self.least.dtype is torch.float32
        tensors = (self.codes, self.scales, self.scales if self.least is None else self.least)
        if not fits or not all(tensor.is_contiguous() for tensor in tensors):
            raise ValueError(f"codes: got {[(each.dtype, tuple(each.shape)) for each in tensors]}")


class PackedLinear:
    """Computes x W^T + b on a CPU with all of torch's threads, accumulated in float32.

    Results are batch-invariant: an output is summed in the same order for any number of rows, so a
    row's result is bit-identical whatever rows are beside it.

    Args:
        weight: float32 or bfloat16, shape (out, in); copied.
        kernel: One of `linear_kernels(weight.dtype)`; by default the first.
        codes: The same weight from its first row on, part by part; only its first rows may have
            some. The kernel reads codes instead of numbers where it can and where they give exactly
            these numbers, so they change no result.

    Raises:
        ValueError: A shape or dtype is not supported, or this processor has no such kernel.
    """

    __slots__ = ("_in", "core", "dtype", "out")

    def __init__(
        self, weight: Tensor, kernel: str | None = None, *, codes: Sequence[Codes] = ()
    ) -> None:
        kinds = {name: kind for kind in _kinds(weight.dtype) for name in kind.kernels()}
        if weight.dim() != 2 or weight.dtype not in (torch.float32, torch.bfloat16):
            raise ValueError(f"weight: got {weight.dtype} {tuple(weight.shape)}")
        chosen = next(iter(kinds), None) if kernel is None else kernel
        if chosen is None or chosen not in kinds:
            raise ValueError(f"kernel: no {chosen} for {weight.dtype}; available are {list(kinds)}")
        self.out, self._in = weight.shape
        self.dtype = weight.dtype
        values = weight.detach().contiguous()
        kind = kinds[chosen]
        where = chosen, values.data_ptr(), self.out, self._in
        self.core: _Packed
        if issubclass(kind, PackedFloat32):
            self.core = kind(*where)
        else:
            self.core = kind(*where, self._addresses(codes))

    @property
    def bytes(self) -> int:
        """Memory of the packed weight."""
        return self.core.bytes

    def _addresses(self, codes: Sequence[Codes]) -> list[tuple[int, int, int, int, int, int]]:
        found, first = [], 0
        for part in codes:
            part.check()
            rows = part.codes.shape[0]
            if part.inputs != self._in or first + rows > self.out:
                raise ValueError(f"codes: got {rows} rows of {part.inputs} from row {first} on")
            least = 0 if part.least is None else part.least.data_ptr()
            found.append(
                (first, rows, part.bits, part.codes.data_ptr(), part.scales.data_ptr(), least)
            )
            first += rows
        return found

    def __call__(self, inputs: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the layer's outputs, shape (..., out), dtype of the weight.

        Args:
            inputs: Shape (..., in), dtype of the weight.
            bias: Shape (out,), same dtype.

        Raises:
            ValueError: A shape or dtype is wrong.
        """
        rows = inputs if inputs.dim() == 2 else inputs.reshape(-1, inputs.shape[-1])
        if rows.shape[1] != self._in or rows.dtype is not self.dtype:
            raise ValueError(
                f"inputs: expected {self.dtype} (..., {self._in}), "
                f"got {inputs.dtype} {tuple(inputs.shape)}"
            )
        if rows.stride(1) != 1:
            rows = rows.contiguous()
        if bias is not None:
            if bias.shape != (self.out,) or bias.dtype is not self.dtype:
                raise ValueError(
                    f"bias: expected {self.dtype} ({self.out},), "
                    f"got {bias.dtype} {tuple(bias.shape)}"
                )
            bias = bias.contiguous()
        count = rows.shape[0]
        outputs = torch.empty((*inputs.shape[:-1], self.out), dtype=self.dtype)
        if count:
            at = 0 if bias is None else bias.data_ptr()
            self.core.multiply(rows.data_ptr(), rows.stride(0), count, at, outputs.data_ptr())
        return outputs
