"""The configuration of a draft head: the `config.json` of our own format, parsed strictly."""

import math
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

FORMAT: Literal["specgate-draft-head"] = "specgate-draft-head"

_Size = Annotated[int, Field(ge=1)]


class HeadConfig(BaseModel):
    """The shape of a head, and the target that it drafts for.

    The embedding of a head is either a table of its own, with a row for each token of the target,
    or a projection of the target's input embeddings (`share_embedding`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal["specgate-draft-head"] = Field(default=FORMAT, description="Names our format.")
    version: Literal[1] = Field(default=1, description="Version of the format.")
    kind: Literal["mlp", "lstm", "gated", "medusa"] = Field(
        description="Recurrence that computes a state from the previous one; Medusa's positions "
        "each start from the target's."
    )
    hidden_size: _Size = Field(description="Width of the target's last hidden state.")
    vocab_size: _Size = Field(description="Vocabulary size of the target.")
    inner_size: _Size = Field(description="Width of the head's state.")
    positions: _Size = Field(description="Number of draft tokens that the head was trained for.")
    draft_vocab_size: _Size | None = Field(
        default=None, description="Number of tokens that it can draft; null for all."
    )
    tie_positions: bool = Field(
        default=True,
        description="Share one set of weights between positions, except the first projection.",
    )
    tie_gates: bool = Field(
        default=True, description="Share one embedding between the gates of an LSTM."
    )
    scale_input: bool = Field(
        default=True, description="Normalise the target's state and divide it by sqrt(2)."
    )
    share_embedding: bool = Field(
        default=False, description="Project the target's input embeddings; no own table."
    )
    share_output: bool = Field(
        default=False, description="Use the target's output layer; no own one."
    )
    project_output: bool = Field(
        default=False,
        description="Apply a linear layer before the target's output layer even at equal widths.",
    )
    gated_size: _Size | None = Field(
        default=None, description="Inner width of a gated cell; null for twice inner_size."
    )
    window: int = Field(
        default=0,
        ge=0,
        description="Number of earlier text positions that a gated head attends to; 0 for none.",
    )
    window_tokens: bool = Field(
        default=False,
        description="Also draft the tokens at those positions that `draft_vocab_size` lacks.",
    )
    attention_heads: _Size = Field(default=3, description="Attention heads, with a window.")
    attention_head_size: _Size = Field(default=64, description="Width of an attention head.")
    residual_layers: _Size = Field(
        default=1, description="Residual layers of each position (Medusa)."
    )
    deep_projection: int = Field(
        default=0, ge=0, description="Additional layers after each projection of the state (MLP)."
    )
    deep_sizes: tuple[_Size, ...] = Field(
        default=(), description="Widths of additional layers between sum and state (MLP)."
    )
    tokenizer_sha256: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of the target's tokenizer.json.",
    )
    card: dict[str, JsonValue] = Field(
        default_factory=dict, description="How the head was made and its quality; not used."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.draft_vocab_size is not None and self.draft_vocab_size > self.vocab_size:
            raise ValueError(
                f"draft_vocab_size {self.draft_vocab_size} exceeds vocab_size {self.vocab_size}"
            )
        if self.kind != "mlp" and (self.deep_projection or self.deep_sizes):
            raise ValueError(f"kind {self.kind} supports neither deep_projection nor deep_sizes")
        if self.kind != "lstm" and not self.tie_gates:
            raise ValueError(f"kind {self.kind} has a single gate: tie_gates must be true")
        if self.kind != "gated" and self.gated_size is not None:
            raise ValueError(f"kind {self.kind} has no gated_size")
        if self.kind != "gated" and self.window:
            raise ValueError(f"kind {self.kind} has no window")
        if self.window_tokens and not (
            self.window and self.share_output and self.draft_vocab_size is not None
        ):
            raise ValueError("window_tokens requires window, share_output and draft_vocab_size")
        if self.project_output and not self.share_output:
            raise ValueError("project_output requires share_output")
        if self.kind != "medusa" and self.residual_layers != 1:
            raise ValueError(f"kind {self.kind} has no residual_layers")
        if self.kind == "medusa":
            self._check_medusa()
        return self

    def _check_medusa(self) -> None:
        if self.inner_size != self.hidden_size:
            raise ValueError(
                f"kind medusa starts from the target's state: inner_size {self.inner_size} must "
                f"equal hidden_size {self.hidden_size}"
            )
        switches = {
            "tie_positions": self.tie_positions,
            "scale_input": self.scale_input,
            "share_embedding": self.share_embedding,
            "project_output": self.project_output,
        }
        if wrong := [name for name, is_on in switches.items() if is_on]:
            raise ValueError(f"kind medusa requires {' and '.join(wrong)} to be false")

    @property
    def gates(self) -> int:
        """Number of vectors of `sum_size` in the sum."""
        return 4 if self.kind == "lstm" else 1

    @property
    def sum_size(self) -> int:
        """Width of the sum of projected state and embedding."""
        return (*self.deep_sizes, self.inner_size)[0]

    @property
    def gated_width(self) -> int:
        """Inner width of a gated cell."""
        return 2 * self.inner_size if self.gated_size is None else self.gated_size

    @property
    def attention_size(self) -> int:
        """Width of a position's queries, all heads together."""
        return self.attention_heads * self.attention_head_size

    @property
    def has_output(self) -> bool:
        """Whether the head has an output layer, to tokens or to the target's hidden size."""
        return not self.share_output or self.project_output or self.inner_size != self.hidden_size

    @property
    def embedding_size(self) -> int:
        """Width of an embedding: all gates, or the one that they share."""
        return self.sum_size * (1 if self.tie_gates else self.gates)

    @property
    def output_size(self) -> int:
        """Tokens that the head can draft."""
        return self.vocab_size if self.draft_vocab_size is None else self.draft_vocab_size

    @property
    def embedding_scale(self) -> float:
        """Factor of an embedding before it is added to the projected state.

        Source: arXiv:2404.19124 and its reference code: emb_weight / state_weight.
        """
        state_weight: float = 0.5 ** (0.5 / self.positions)
        return math.sqrt((1 - state_weight**2) * self.sum_size / 2) / state_weight
