"""The recurrences: how a head's state follows from the sum of projected state and embedding.

Pure functions of tensors, used by training and drafting alike. Sources: MLP arXiv:2404.19124, LSTM
Arctic Inference's `ArcticLSTMSpeculator`, gated docs/adr/0015, Medusa arXiv:2401.10774. Norms are
RMS norms with weight and bias.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

EPSILON = 1e-6
_HALF_ROOT = 0.5**0.5

Linear = Callable[[Tensor], Tensor]


class Norm(NamedTuple):
    """An RMS norm: x / sqrt(mean(x^2) + 1e-6) * weight + bias.

    Attributes:
        weight: Shape (width,).
        bias: Shape (width,).
        floor: sqrt(width * 1e-6), a scalar tensor.
    """

    weight: Tensor
    bias: Tensor
    floor: Tensor


def make_norm(weight: Tensor, bias: Tensor) -> Norm:
    """Return the RMS norm with this weight and bias, (width,) each."""
    return Norm(weight, bias, weight.new_full((), math.sqrt(weight.shape[0] * EPSILON)))


class Layer(NamedTuple):
    """An additional layer: linear(GELU(norm(x)))."""

    norm: Norm
    linear: Linear


def make_input_norm(width: int, like: Tensor) -> Norm:
    """Return the norm of the target's state, RMSnorm(h) / sqrt(2), which has no parameters.

    Args:
        width: Width of the state.
        like: A tensor with the dtype and device to use.
    """
    weight = like.new_full((width,), _HALF_ROOT)
    return make_norm(weight, torch.zeros_like(weight))


def join(projected: Tensor, embedded: Tensor, scale: float) -> Tensor:
    """Return projected + scale * embedded.

    Args:
        projected: Projected state for all gates, (..., gates * width). At the first position there
            is no forget gate, since there is no memory to forget.
        embedded: Embedding for each of four gates, (..., 4 * width), or one for all, (..., width).
        scale: `HeadConfig.embedding_scale`.
    """
    width, wanted = embedded.shape[-1], projected.shape[-1]
    if width == wanted:
        return torch.add(projected, embedded, alpha=scale)
    if width > wanted:
        return torch.add(projected, embedded[..., width - wanted :], alpha=scale)
    gates = projected.unflatten(-1, (wanted // width, width))
    return torch.add(gates, embedded.unsqueeze(-2), alpha=scale).flatten(-2)


def run_layer(layer: Layer, state: Tensor) -> Tensor:
    """Return linear(GELU(norm(state)))."""
    return layer.linear(_gelu(apply_norm(state, layer.norm)))


class MlpCell(NamedTuple):
    """The recurrence of an MLP: GELU(norm(sum)), optionally after additional layers."""

    layers: tuple[Layer, ...]
    norm: Norm

    def step(self, total: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the next state, (..., inner), and no memory.

        Args:
            total: `join` of projected state and embedding, (..., sum_size).
            memory: Unused; None.
        """
        for layer in self.layers:
            total = run_layer(layer, total)
        return _gelu(apply_norm(total, self.norm)), memory


class LstmCell(NamedTuple):
    """The recurrence of an LSTM with a norm before each of its two activations."""

    cell_norm: Norm
    state_norm: Norm

    def step(self, total: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the next state and memory, (..., inner) each.

        Args:
            total: `join` of projected state and embedding: forget, input, output, candidate,
                (..., 4 * inner); without forget at the first position, (..., 3 * inner).
            memory: Memory of the previous position; None at the first, where it is zero.
        """
        width = self.cell_norm.weight.shape[0]
        *forget, enter, leave = torch.sigmoid(total[..., :-width]).split(width, -1)
        entering = enter * _gelu(apply_norm(total[..., -width:], self.cell_norm))
        memory = entering if memory is None else torch.addcmul(entering, forget[0], memory)
        return leave * _gelu(apply_norm(memory, self.state_norm)), memory


class GatedCell(NamedTuple):
    """The recurrence of a gated head, a residual layer: s = norm'(a + D(silu(G n) * (U n))).

    a is the sum and n its norm. Source of the layer: arXiv:2002.05202 (SwiGLU).

    Attributes:
        norm: Norm of the sum.
        enter: G stacked on U, (2 * gated_width, inner).
        leave: D, (inner, gated_width).
        state_norm: Norm of the state.
    """

    norm: Norm
    enter: Linear
    leave: Linear
    state_norm: Norm

    def step(self, total: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the next state, (..., inner), and no memory.

        Args:
            total: `join` of projected state and embedding, (..., inner).
            memory: Unused; None.
        """
        gate, value = self.enter(apply_norm(total, self.norm)).chunk(2, -1)
        total = total + self.leave(functional.silu(gate) * value)
        return apply_norm(total, self.state_norm), memory


class ResidualLayer(NamedTuple):
    """A layer of Medusa: x + silu(linear(x) + bias).

    Attributes:
        linear: (hidden) to (hidden).
        bias: Shape (hidden,).
    """

    linear: Linear
    bias: Tensor


class MedusaCell(NamedTuple):
    """A position of Medusa: residual layers on the target's state, whatever was drafted before."""

    layers: tuple[ResidualLayer, ...]

    def step(self, total: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the next state and the target's, (..., hidden) each.

        Args:
            total: The target's state at the first position; later unused.
            memory: The target's state; None at the first position.
        """
        target = total if memory is None else memory
        state = target
        for layer in self.layers:
            state = state + functional.silu(layer.linear(state) + layer.bias)
        return state, target


Cell = MlpCell | LstmCell | GatedCell | MedusaCell


def apply_norm(state: Tensor, norm: Norm) -> Tensor:
    """Return the normalised state, same shape."""
    if _has_one_operation(state):
        weight = norm.weight.to(state.dtype)  # autocast may have lowered the state's dtype
        return functional.rms_norm(state, weight.shape, weight, EPSILON) + norm.bias
    # The same in a third of the operations: torch has no fused RMS norm for CPUs (adr/0015).
    width = norm.weight.shape[0]
    length = torch.linalg.vector_norm(state, dim=-1, keepdim=True)
    length = torch.hypot(length, norm.floor)
    return torch.addcdiv(norm.bias, state * norm.weight, length, value=math.sqrt(width))


def _gelu(state: Tensor) -> Tensor:
    if _has_one_operation(state):
        return functional.gelu(state)
    # torch's GELU wakes all threads even for a single row, and waits for them (adr/0015).
    half = state * 0.5
    return torch.addcmul(half, half, torch.erf(state * _HALF_ROOT))


def _has_one_operation(state: Tensor) -> bool:
    return bool(state.is_cuda or torch.is_grad_enabled())
