"""The layers of a decoder in one call of the core (docs/adr/0032)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch  # first: the core uses the OpenMP runtime that torch loads
from torch import Tensor

from engine._core.kernels import (
    Architecture,
    DecoderBFloat16,
    DecoderFloat32,
    DecoderPairs,
    PackedBFloat16,
    PackedFloat32,
    PackedPairs,
    Requests,
)
from engine.kernels.attention import PagedAttention, StepRequests, attention_kernels
from engine.kernels.linear import PackedLinear

__all__ = ["Decoder", "DecoderLayer", "DecoderSizes", "Linear"]

_Decoder = DecoderFloat32 | DecoderBFloat16 | DecoderPairs
_KINDS: Mapping[type, type[_Decoder]] = {
    PackedFloat32: DecoderFloat32,
    PackedBFloat16: DecoderBFloat16,
    PackedPairs: DecoderPairs,
}
_NO_REQUESTS = Requests(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class DecoderSizes:
    """The sizes of a Llama-shaped model (arXiv 2302.13971).

    Attributes:
        hidden: Width of the residual stream; a multiple of 16.
        intermediate: Width of the MLP; a multiple of 16.
        heads: Number of query heads; a multiple of `kv_heads`.
        kv_heads: Number of key and value heads.
        dim: Width of a head; a multiple of 32, at most 512.
        scale: Factor of attention's scores.
        epsilon: Added to the mean square in norms.
    """

    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    dim: int
    scale: float
    epsilon: float


@dataclass(frozen=True, slots=True)
class Linear:
    """A product and its bias, shape (out,)."""

    packed: PackedLinear
    bias: Tensor | None = None


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """The weights of a layer.

    Attributes:
        qkv: Queries, keys and values, in this order.
        out: From attention's results to the residual stream.
        gate_up: Gates and values of the MLP.
        down: From the MLP to the residual stream.
        attention_norm: Shape (hidden,).
        mlp_norm: Shape (hidden,).
        query_norm: Of each query head before it is rotated, shape (dim,); None for none.
        key_norm: The same for keys.
    """

    qkv: Linear
    out: Linear
    gate_up: Linear
    down: Linear
    attention_norm: Tensor
    mlp_norm: Tensor
    query_norm: Tensor | None = None
    key_norm: Tensor | None = None


class Decoder:
    """Computes all layers of a model with all of torch's threads, accumulated in float32.

    What the layers' modules round to their dtype is rounded here, too. Results are
    batch-invariant: a token's states are bit-identical whatever else is in the step.

    Args:
        sizes: The sizes.
        layers: The layers, first to last; at least one.
        embeddings: float32 or bfloat16, shape (vocabulary, hidden), contiguous.
        angles: Cosines and then sines of each position, shape (positions, dim), contiguous.
        norm: Weight of the last norm, shape (hidden,).

    Raises:
        ValueError: A shape or dtype is not supported, or layers and tables differ in theirs.
    """

    __slots__ = ("_caches", "_core", "_dtype", "_hidden", "_kept")

    def __init__(
        self,
        sizes: DecoderSizes,
        layers: Sequence[DecoderLayer],
        *,
        embeddings: Tensor,
        angles: Tensor,
        norm: Tensor,
    ) -> None:
        self._dtype, self._hidden = embeddings.dtype, sizes.hidden
        kinds = {type(layer.qkv.packed.core) for layer in layers}
        names = attention_kernels(self._dtype)
        if len(kinds) != 1 or not names:
            raise ValueError(f"layers: {len(layers)} with {len(kinds)} kinds of {self._dtype}")
        self._check("embeddings", embeddings, (embeddings.shape[0], sizes.hidden))
        self._check("angles", angles, (angles.shape[0], sizes.dim))
        self._check("norm", norm, (sizes.hidden,))
        self._kept = (layers, embeddings, angles, norm)  # the memory that the core points to
        self._caches: Sequence[PagedAttention] = ()
        self._core: _Decoder = _KINDS[kinds.pop()](
            names[0],
            Architecture(
                sizes.hidden,
                sizes.intermediate,
                sizes.heads,
                sizes.kv_heads,
                sizes.dim,
                sizes.scale,
                sizes.epsilon,
            ),
            embeddings.data_ptr(),
            embeddings.shape[0],
            angles.data_ptr(),
            angles.shape[0],
            norm.data_ptr(),
        )
        for layer in layers:
            self._add(layer, sizes)

    def bind(self, caches: Sequence[PagedAttention]) -> None:
        """Use these caches, one for each layer, from the next call on.

        Raises:
            ValueError: Their number is wrong.
        """
        self._core.bind([cache.core for cache in caches])  # type: ignore[misc]  # the core checks
        self._caches = caches

    def __call__(
        self,
        tokens: Tensor,
        positions: Tensor,
        slots: Tensor | None = None,
        requests: StepRequests | None = None,
        taps: Sequence[int] = (),
    ) -> tuple[Tensor, list[Tensor]]:
        """Compute a step: write its keys and values to the caches, and return its states.

        Args:
            tokens: Token ids, shape (tokens,), or embeddings, shape (tokens, hidden).
            positions: int64, shape (tokens,).
            slots: int64, where in the caches the keys and values of requests' tokens belong;
                negative for nowhere. They come first among the tokens.
            requests: The requests; None if there are no caches yet: then attention gives zeros.
            taps: Layers before which the residual stream is returned; the number of layers means
                after the last.

        Returns:
            The states after the last norm, shape (tokens, hidden), and the residual streams.

        Raises:
            IndexError: A token id, a position or a slot is out of range; nothing was written.
            MemoryError: There is no memory; nothing was written.
            ValueError: A shape or dtype is wrong.
        """
        count = tokens.shape[0]
        if positions.shape != (count,) or positions.dtype is not torch.int64:
            raise ValueError(f"positions: got {positions.dtype} {tuple(positions.shape)}")
        ids = embeddings = 0
        if tokens.dim() == 1:
            tokens = tokens.to(torch.int32).contiguous()
            ids = tokens.data_ptr()
        else:
            tokens = tokens.contiguous()
            self._check("tokens", tokens, (count, self._hidden))
            embeddings = tokens.data_ptr()
        if requests is not None and (slots is None or slots.dtype is not torch.int64):
            raise ValueError("slots: requests need them, as int64")
        if requests is not None and slots is not None and slots.shape[0] < requests.tokens:
            raise ValueError(f"slots: got {slots.shape[0]} for {requests.tokens} tokens")
        positions = positions.contiguous()
        outputs, *streams = (
            torch.empty((count, self._hidden), dtype=self._dtype) for _ in range(1 + len(taps))
        )
        self._core.run(
            count,
            ids,
            embeddings,
            positions.data_ptr(),
            0 if slots is None else slots.data_ptr(),
            _NO_REQUESTS if requests is None else requests.core,
            outputs.data_ptr(),
            [(layer, stream.data_ptr()) for layer, stream in zip(taps, streams, strict=True)],
        )
        return outputs, streams

    def _add(self, layer: DecoderLayer, sizes: DecoderSizes) -> None:
        products: list[object] = []
        for linear in (layer.qkv, layer.out, layer.gate_up, layer.down):
            if linear.bias is not None:
                self._check("bias", linear.bias, (linear.packed.out,))
            products += [linear.packed.core, _address(linear.bias)]
        norms = (
            (layer.attention_norm, sizes.hidden),
            (layer.mlp_norm, sizes.hidden),
            (layer.query_norm, sizes.dim),
            (layer.key_norm, sizes.dim),
        )
        for norm, width in norms:
            if norm is not None:
                self._check("norm", norm, (width,))
        self._core.add(*products, *(_address(norm) for norm, _ in norms))  # type: ignore[arg-type]  # pairs of a weight and an address

    def _check(self, name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
        fits = tensor.shape == shape and tensor.dtype is self._dtype and tensor.is_contiguous()
        if not fits or tensor.device.type != "cpu":
            raise ValueError(f"{name}: got {tensor.dtype} {tuple(tensor.shape)} on {tensor.device}")


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
