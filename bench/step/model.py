"""A model of random weights for one kernel, and the parts of its step that are timed."""

from dataclasses import dataclass

import torch
from torch import Tensor

from bench.step.plan import Shape
from engine.kernels import (
    Codes,
    Decoder,
    DecoderLayer,
    Linear,
    PackedLinear,
    PagedAttention,
    StepRequests,
    coded_kernels,
    linear_kernels,
)

_BLOCK_TOKENS = 128  # vLLM's default on CPUs
_THETA = 10_000.0


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel for products of this processor.

    Attributes:
        reads_codes: The weights are kept in codes: of 4 bits, and of 8 in the last product.
    """

    dtype: torch.dtype
    name: str
    reads_codes: bool = False

    def __str__(self) -> str:
        form = " codes" if self.reads_codes else ""
        return f"{str(self.dtype).removeprefix('torch.')} {self.name}{form}"


def kernels_here() -> list[Kernel]:
    """Return all kernels of this processor, by dtype; the first of each is what a worker takes."""
    return [
        Kernel(dtype, name, reads_codes)
        for dtype in (torch.bfloat16, torch.float32)
        for name in linear_kernels(dtype)
        for reads_codes in (False, True)
        if not reads_codes or (dtype is torch.bfloat16 and name in coded_kernels())
    ]


class StepModel:
    """The weights, packed for a kernel, and the cache of one request.

    Args:
        most_tokens: Of the request, context included.
    """

    def __init__(self, shape: Shape, kernel: Kernel, *, most_tokens: int) -> None:
        self.shape, self.kernel = shape, kernel
        self._random = torch.Generator().manual_seed(1)
        # Of ones: pages of zeros could all be the same one, which stays in the cache.
        self._memory = torch.ones(
            shape.weights * kernel.dtype.itemsize // torch.float32.itemsize, dtype=torch.float32
        )
        self._products = [self._draw_product(out, inputs) for out, inputs in shape.products]
        self._table = torch.arange(-(-most_tokens // _BLOCK_TOKENS), dtype=torch.int32)[None]
        self._decoder = self._build(most_tokens)

    @property
    def weight_bytes(self) -> int:
        """Size of what `read` reads."""
        return int(self._memory.nbytes)

    def read(self) -> Tensor:
        """Read as many bytes as the weights have, once and in order."""
        return self._memory.sum()

    def multiply(self, rows: int) -> Tensor:
        """Compute all products, each with this many rows.

        Returns:
            The last one's, shape (rows, vocabulary).
        """
        inputs = {
            width: torch.ones((rows, width), dtype=self.kernel.dtype)
            for _, width in self.shape.products
        }
        found = inputs[self.shape.sizes.hidden]
        for product, (_, width) in zip(self._products, self.shape.products, strict=True):
            found = product(inputs[width])
        return found

    def forward(self, rows: int, context: int) -> Tensor:
        """Compute a step of one request: its layers in one call, then the last product.

        Args:
            rows: Tokens of the step.
            context: Tokens before them.

        Returns:
            The logits of all rows, shape (rows, vocabulary).
        """
        positions = torch.arange(context, context + rows)
        slots = (
            self._table[0, positions // _BLOCK_TOKENS].long() * _BLOCK_TOKENS
            + positions % _BLOCK_TOKENS
        )
        requests = StepRequests(
            torch.tensor([0, rows], dtype=torch.int32),
            torch.tensor([context + rows], dtype=torch.int32),
            self._table,
        )
        states, _ = self._decoder(positions % self.shape.vocabulary, positions, slots, requests)
        return self._products[-1](states)

    def _build(self, most_tokens: int) -> Decoder:
        shape, sizes = self.shape, self.shape.sizes
        norm = torch.ones(sizes.hidden, dtype=self.kernel.dtype)
        linears = [Linear(product) for product in self._products[:-1]]
        layers = [
            DecoderLayer(qkv, out, gate_up, down, attention_norm=norm, mlp_norm=norm)
            for qkv, out, gate_up, down in zip(
                *(linears[first::4] for first in range(4)), strict=True
            )
        ]
        frequencies = _THETA ** (-torch.arange(0, sizes.dim, 2) / sizes.dim)
        turns = torch.arange(most_tokens)[:, None] * frequencies
        decoder = Decoder(
            sizes,
            layers,
            embeddings=self._draw(shape.vocabulary, sizes.hidden),
            angles=torch.cat([turns.cos(), turns.sin()], dim=-1).to(self.kernel.dtype),
            norm=norm,
        )
        blocks = (self._table.shape[1], sizes.kv_heads, 2 * _BLOCK_TOKENS, sizes.dim)
        decoder.bind(
            [
                PagedAttention(
                    *self._draw(*blocks).chunk(2, dim=2), heads=sizes.heads, scale=sizes.scale
                )
                for _ in layers
            ]
        )
        return decoder

    def _draw_product(self, out: int, inputs: int) -> PackedLinear:
        if not self.kernel.reads_codes:
            return PackedLinear(self._draw(out, inputs) * inputs**-0.5, self.kernel.name)
        codes = self._draw_codes(out, inputs, bits=8 if out == self.shape.vocabulary else 4)
        return PackedLinear(codes.widened(), self.kernel.name, codes=[codes])

    def _draw_codes(self, out: int, inputs: int, *, bits: int) -> Codes:
        scales = torch.rand(out, inputs // (32 if bits == 4 else 16), generator=self._random)
        scales = (scales * inputs**-0.5 / 2**bits).half().float()
        bytes_of_row = inputs * bits // 8
        codes = torch.randint(0, 256, (out, bytes_of_row), generator=self._random)
        if bits == 8:
            return Codes((codes - 128).to(torch.int8), scales)
        return Codes(codes.to(torch.uint8), scales, -8 * scales)

    def _draw(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self._random).to(self.kernel.dtype)
