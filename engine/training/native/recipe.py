"""Recipes whose `head.kind` is one of vLLM's own drafters."""

from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from engine.training.recipe import RecipeBase, read_document, validate

Kind = Literal["eagle3", "peagle", "dflash"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NativeHead(_Section):
    """The drafter's shape; what is not here follows from the target or is the library's default."""

    kind: Kind = Field(description="Its architecture.")
    positions: int = Field(
        default=3, ge=1, le=16, description="Tokens that it drafts in one step, in training too."
    )
    layers: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(
        default=None,
        min_length=1,
        description="Layers of the target whose output it reads, counted from 0 as the input of "
        "the first; by default 2, the middle one and the third from the end.",
    )
    decoder_layers: int = Field(default=1, ge=1, le=16, description="Its own layers.")
    draft_vocab_size: int | None = Field(
        default=None, ge=1, description="Most frequent tokens that it can draft; null for all."
    )
    mask_token: int | None = Field(
        default=None,
        ge=0,
        description="Token that stands for those not yet drafted, in peagle and dflash; by default "
        "one that the tokenizer reserves.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.layers is not None and len(set(self.layers)) != len(self.layers):
            raise ValueError("layers lists a layer twice")
        if self.mask_token is not None and self.kind == "eagle3":
            raise ValueError("mask_token: eagle3 has none")
        return self

    def drafter(self, folder: Path) -> dict[str, JsonValue]:
        """Return vLLM's `speculative_config` with which a finished drafter is served."""
        method = "dflash" if self.kind == "dflash" else "eagle3"
        found: dict[str, JsonValue] = {
            "method": method,
            "model": str(folder),
            "num_speculative_tokens": self.positions,
        }
        return found | {"parallel_drafting": True} if self.kind == "peagle" else found


class NativeHidden(_Section):
    """Step 2: the target's hidden states, written by a worker of ours."""

    store: bool = Field(
        default=True,
        description="Store them in files: 2 bytes for each token, layer and element. Else the "
        "worker computes them again in each epoch, beside the training.",
    )
    concurrency: int = Field(default=32, ge=1, description="Documents computed concurrently.")


class NativeTrain(_Section):
    """Step 3: training by the library."""

    epochs: int = Field(ge=1, description="Passes over the text.")
    learning_rate: float = Field(default=1e-3, gt=0, description="Peak of the linear schedule.")
    sequence_tokens: int = Field(
        default=2048, ge=16, description="Tokens per optimizer step; longer documents are cut."
    )
    checkpoints_per_epoch: int = Field(
        default=1, ge=1, description="A killed run loses what came after the last one."
    )


class NativeRecipe(RecipeBase):
    """A whole recipe file."""

    hidden: NativeHidden = Field(default_factory=NativeHidden, description="Step 2: hidden states.")
    head: NativeHead = Field(description="The drafter's shape.")
    train: NativeTrain = Field(description="Step 3: training.")

    @model_validator(mode="after")
    def _check_export(self) -> Self:
        if self.export.window is not None or self.export.most_mb is not None:
            raise ValueError("export: only licence applies to one of vLLM's own drafters")
        return self

    @property
    def longest(self) -> int:
        """Most tokens of a document; the worker must have room for one more."""
        room = self.engine.vllm.get("max_model_len")
        most = self.train.sequence_tokens
        return min(most, room - 1) if isinstance(room, int) else most


def load_native_recipe(path: Path) -> NativeRecipe | None:
    """Read a recipe; None if it is one of ours (`engine.training.recipe`) .

    Raises:
        RecipeError: It has an unknown name or invalid value.
    """
    document = read_document(path)
    head = document.get("head") if isinstance(document, dict) else None
    if not isinstance(head, dict) or head.get("kind") not in KINDS:
        return None
    return validate(NativeRecipe, document, path)
