"""Checkpoint layout of Arctic Inference's `ArcticLSTMSpeculator`, for both of its methods.

`sum_lstm` is an LSTM. `sum_rnn` is an MLP whose embeddings, projections and norms may have several
layers, which are stored as `nn.Sequential`.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from torch import Tensor
from torch.nn import functional

from engine.errors import HeadFileError
from engine.heads.cells import Layer, Norm, make_norm, run_layer
from engine.heads.layout import configure, groups, validate
from engine.heads.stored import SAFETENSORS, StoredWeights

# Multi-layer embeddings are folded this many tokens at a time, to bound memory.
_TOKENS_AT_ONCE = 8192


def _split(value: object) -> object:
    """Turn "4096" or "4096.2048" into a tuple of sizes; a single size may be a number."""
    if isinstance(value, str) and all(part.isdecimal() for part in value.split(".")):
        return tuple(int(part) for part in value.split("."))
    return (value,) if isinstance(value, int) else value


_Size = Annotated[int, Field(ge=1)]
_Sizes = Annotated[tuple[_Size, ...], BeforeValidator(_split), Field(min_length=1)]


class _Config(BaseModel):
    """The keys of config.json that describe the weights."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    input_hidden_dim: _Size
    inner_dim: _Sizes
    proj_dim: _Sizes
    emb_dim: _Sizes
    vocab_size: _Size
    n_predict: _Size
    tie_weights: bool = False
    tie_lstm_embs: bool = False
    scale_input: bool = False
    method: Literal["sum_rnn", "sum_lstm"] = "sum_rnn"


class ArcticLstm:
    """A folder in this layout; see `Layout`."""

    prefix = "speculator."
    files = SAFETENSORS

    def __init__(self, path: Path, content: bytes) -> None:
        published = validate(_Config, path, content)
        _check_sizes(published, path)
        is_lstm = published.method == "sum_lstm"
        self._published = published
        self.config = configure(
            path,
            kind="lstm" if is_lstm else "mlp",
            hidden_size=published.input_hidden_dim,
            vocab_size=published.vocab_size,
            inner_size=published.inner_dim[-1],
            positions=published.n_predict,
            tie_positions=published.tie_weights,
            tie_gates=published.tie_lstm_embs or not is_lstm,
            scale_input=published.scale_input,
            deep_projection=len(published.proj_dim) - 1,
            deep_sizes=published.inner_dim[:-1],
        )

    def read(self, stored: StoredWeights) -> dict[str, Tensor]:
        """See `Layout.read`."""
        config = self.config
        tensors = {
            f"outputs.{own}.weight": stored.take_tied(
                map("head.{}.weight".format, positions), (config.vocab_size, config.inner_size)
            )
            for own, positions in enumerate(groups(config))
        }
        return tensors | (
            self._read_lstm(stored) if config.kind == "lstm" else self._read_rnn(stored)
        )

    def _read_lstm(self, stored: StoredWeights) -> dict[str, Tensor]:
        config = self.config
        vocab, width = config.vocab_size, config.inner_size
        names = [f"{gate}_emb.0.weight" for gate in _GATES]
        if config.tie_gates:
            embedding = stored.take_tied(names, (vocab, width))
        else:
            embedding = torch.cat([stored.take(name, (vocab, width)) for name in names], 1)
        first, later = (
            [stored.take(f"{gate}_proj.{at}.weight", (width, enters)) for gate in _GATES]
            for at, enters in ((0, config.hidden_size), (1, width))
        )
        tensors = {
            "embeddings.0.weight": embedding,
            # No forget gate at the first position: its memory is zero.
            "projections.0.linear.weight": torch.cat(first[1:]),
        }
        if config.positions > 1:
            tensors["projections.1.linear.weight"] = torch.cat(later)
        for norm in ("cell", "state"):
            for part in ("weight", "bias"):
                name = f"cells.0.{norm}_norm.{part}"
                tensors[name] = stored.take(f"{norm}_ln.0.{part}", (width,))
        return tensors

    def _read_rnn(self, stored: StoredWeights) -> dict[str, Tensor]:
        tensors = {}
        for own, positions in enumerate(groups(self.config)):
            tensors[f"embeddings.{own}.weight"] = self._read_embedding(stored, positions)
            tensors |= self._read_norms(stored, positions, f"cells.{own}")
        for own, positions in enumerate(groups(self.config, first_apart=True)):
            tensors |= self._read_projection(stored, positions, f"projections.{own}")
        return tensors

    def _read_embedding(self, stored: StoredWeights, positions: range) -> Tensor:
        """Fold an embedding and its layers into a table; they depend on the token alone."""
        sizes = self._published.emb_dim
        table = stored.take_tied(
            _names("emb", positions, "0.weight"), (self._published.vocab_size, sizes[0])
        )
        for depth in range(len(sizes) - 1):
            at = 3 * depth
            norm = _take_norm(stored, "emb", positions, at + 1, sizes[0])
            weight = stored.take_tied(
                _names("emb", positions, f"{at + 3}.weight"), (sizes[0], sizes[0])
            )
            table = _apply(norm, weight, table)
        return table

    def _read_projection(
        self, stored: StoredWeights, positions: range, ours: str
    ) -> dict[str, Tensor]:
        width = self._published.proj_dim[0]
        enters = self.config.inner_size if positions[0] else self.config.hidden_size
        tensors = {
            f"{ours}.linear.weight": stored.take_tied(
                _names("proj", positions, "0.weight"), (width, enters)
            )
        }
        for depth in range(self.config.deep_projection):
            at = 3 * depth
            norm = _take_norm(stored, "proj", positions, at + 1, width)
            tensors |= _name_norm(norm, f"{ours}.layers.{depth}.norm")
            tensors[f"{ours}.layers.{depth}.linear.weight"] = stored.take_tied(
                _names("proj", positions, f"{at + 3}.weight"), (width, width)
            )
        return tensors

    def _read_norms(self, stored: StoredWeights, positions: range, ours: str) -> dict[str, Tensor]:
        sizes = self._published.inner_dim
        tensors: dict[str, Tensor] = {}
        for depth, (width, out) in enumerate(pairwise(sizes)):
            at = 3 * depth
            norm = _take_norm(stored, "ln", positions, at, width)
            tensors |= _name_norm(norm, f"{ours}.layers.{depth}.norm")
            tensors[f"{ours}.layers.{depth}.linear.weight"] = stored.take_tied(
                _names("ln", positions, f"{at + 2}.weight"), (out, width)
            )
        last = _take_norm(stored, "ln", positions, 3 * (len(sizes) - 1), sizes[-1])
        return tensors | _name_norm(last, f"{ours}.norm")


# In the order of our weights.
_GATES = ("forget", "input", "output", "cell")


def _check_sizes(published: _Config, path: Path) -> None:
    """Reject sizes that the reference implementation cannot run either."""
    inner, proj, emb = published.inner_dim, published.proj_dim, published.emb_dim
    found = f"found inner_dim {_join(inner)}, proj_dim {_join(proj)}, emb_dim {_join(emb)}"
    if published.method == "sum_lstm":
        if {inner, proj, emb} != {inner[:1]}:
            raise HeadFileError(f"{path}: {found}, expected one common size for sum_lstm")
        if not published.tie_weights:
            raise HeadFileError(f"{path}: found tie_weights false, expected true for sum_lstm")
    elif {*proj, *emb} != {inner[0]}:
        raise HeadFileError(
            f"{path}: {found}, expected proj_dim and emb_dim to equal the first of inner_dim"
        )


def _join(sizes: Sequence[int]) -> str:
    return ".".join(map(str, sizes))


def _names(kind: str, positions: range, rest: str) -> list[str]:
    return [f"{kind}.{position}.{rest}" for position in positions]


def _take_norm(stored: StoredWeights, kind: str, positions: range, at: int, width: int) -> Norm:
    weight, bias = (
        stored.take_tied(_names(kind, positions, f"{at}.{part}"), (width,))
        for part in ("weight", "bias")
    )
    return make_norm(weight, bias)


def _name_norm(norm: Norm, ours: str) -> dict[str, Tensor]:
    return {f"{ours}.weight": norm.weight, f"{ours}.bias": norm.bias}


def _apply(norm: Norm, weight: Tensor, table: Tensor) -> Tensor:
    precise = Layer(
        make_norm(norm.weight.float(), norm.bias.float()),
        partial(functional.linear, weight=weight.float()),
    )
    parts = [run_layer(precise, part.float()) for part in table.split(_TOKENS_AT_ONCE)]
    return torch.cat(parts)
