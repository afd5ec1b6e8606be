"""Checkpoint layout of IBM's `MLPSpeculator`, which Arctic's MLP speculators also use."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from engine.heads.layout import configure, groups, validate
from engine.heads.stored import SAFETENSORS, StoredWeights


class _Config(BaseModel):
    """The keys of config.json that describe the weights."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    vocab_size: Annotated[int, Field(ge=1)]
    emb_dim: Annotated[int, Field(ge=1)]
    inner_dim: Annotated[int, Field(ge=0)] = 0
    n_predict: Annotated[int, Field(ge=1)]
    tie_weights: bool = False
    scale_input: bool = False


class MlpSpeculator:
    """A folder in this layout; see `Layout`."""

    prefix = "speculator."
    files = SAFETENSORS

    def __init__(self, path: Path, content: bytes) -> None:
        published = validate(_Config, path, content)
        self.config = configure(
            path,
            kind="mlp",
            hidden_size=published.emb_dim,
            vocab_size=published.vocab_size,
            inner_size=published.inner_dim or published.emb_dim,
            positions=published.n_predict,
            tie_positions=published.tie_weights,
            scale_input=published.scale_input,
        )

    def read(self, stored: StoredWeights) -> dict[str, Tensor]:
        """See `Layout.read`."""
        config, inner = self.config, self.config.inner_size
        tensors = {}
        for own, positions in enumerate(groups(config)):
            for ours, theirs, shape in (
                (f"embeddings.{own}.weight", "emb.{}.weight", (config.vocab_size, inner)),
                (f"cells.{own}.norm.weight", "ln.{}.weight", (inner,)),
                (f"cells.{own}.norm.bias", "ln.{}.bias", (inner,)),
                (f"outputs.{own}.weight", "head.{}.weight", (config.vocab_size, inner)),
            ):
                tensors[ours] = stored.take_tied(map(theirs.format, positions), shape)
        for own, positions in enumerate(groups(config, first_apart=True)):
            enters = inner if own else config.hidden_size
            tensors[f"projections.{own}.linear.weight"] = stored.take_tied(
                map("proj.{}.weight".format, positions), (inner, enters)
            )
        return tensors
