"""What a draft head is made of: the `config.json` of our own format, strict."""

import math
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

FORMAT: Literal["specgate-draft-head"] = "specgate-draft-head"

_Size = Annotated[int, Field(ge=1)]


class HeadConfig(BaseModel):
    """The shape of a head, and which target it drafts for.

    The embedding of a head is a table of its own with a row for each token of the target, or a
    projection of the target's own rows (`share_embedding`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal["specgate-draft-head"] = Field(default=FORMAT, description="Marks our format.")
    version: Literal[1] = Field(default=1, description="Of the format.")
    kind: Literal["mlp", "lstm", "gated"] = Field(
        description="How a state follows from the one before."
    )
    hidden_size: _Size = Field(description="Width of the target's last hidden state.")
    vocab_size: _Size = Field(description="Tokens of the target.")
    inner_size: _Size = Field(description="Width of the head's state.")
    positions: _Size = Field(description="Tokens that it was trained to draft.")
    draft_vocab_size: _Size | None = Field(
        default=None, description="Tokens that it can draft; null for all of the target's."
    )
    tie_positions: bool = Field(
        default=True,
        description="One set of weights for all positions; the first projection apart.",
    )
    tie_gates: bool = Field(
        default=True, description="One embedding for all gates of an LSTM; the others have one."
    )
    scale_input: bool = Field(
        default=True, description="Norm the target's state and divide it by the root of 2."
    )
    share_embedding: bool = Field(
        default=False, description="Project the target's input embeddings instead of own ones."
    )
    share_output: bool = Field(
        default=False, description="Take the target's output rows instead of own ones."
    )
    project_output: bool = Field(
        default=False,
        description="A linear layer before the target's rows also when the widths are the same.",
    )
    gated_size: _Size | None = Field(
        default=None, description="Width inside a gated cell; null for twice inner_size."
    )
    window: int = Field(
        default=0,
        ge=0,
        description="Earlier rows of the text that a gated head looks at; 0 for none.",
    )
    window_tokens: bool = Field(
        default=False,
        description="Draft the tokens of those rows, too, if `draft_vocab_size` lacks them.",
    )
    attention_heads: _Size = Field(default=3, description="Queries of a position, with a window.")
    attention_head_size: _Size = Field(default=64, description="Width of a query.")
    deep_projection: int = Field(
        default=0, ge=0, description="Further layers behind each projection of the state (MLP)."
    )
    deep_sizes: tuple[_Size, ...] = Field(
        default=(), description="Widths between the sum and the state, if more than one (MLP)."
    )
    tokenizer_sha256: str | None = Field(
        default=None, pattern="^[0-9a-f]{64}$", description="Of the target's tokenizer.json."
    )
    card: dict[str, JsonValue] = Field(
        default_factory=dict, description="How it was made and what it reaches; not read by us."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.draft_vocab_size is not None and self.draft_vocab_size > self.vocab_size:
            raise ValueError(
                f"draft_vocab_size {self.draft_vocab_size} exceeds vocab_size {self.vocab_size}"
            )
        if self.kind != "mlp" and (self.deep_projection or self.deep_sizes):
            raise ValueError(f"kind {self.kind} has neither deep_projection nor deep_sizes")
        if self.kind != "lstm" and not self.tie_gates:
            raise ValueError(f"kind {self.kind} has one gate: tie_gates must be true")
        if self.kind != "gated" and self.gated_size is not None:
            raise ValueError(f"kind {self.kind} has no gated_size")
        if self.kind != "gated" and self.window:
            raise ValueError(f"kind {self.kind} has no window")
        if self.window_tokens and not (
            self.window and self.share_output and self.draft_vocab_size is not None
        ):
            raise ValueError("window_tokens needs window, share_output and draft_vocab_size")
        if self.project_output and not self.share_output:
            raise ValueError("project_output needs share_output: own rows need no layer before")
        return self

    @property
    def gates(self) -> int:
        """Vectors of `sum_size` that a state is made of."""
        return 4 if self.kind == "lstm" else 1

    @property
    def sum_size(self) -> int:
        """Width of the sum of projected state and embedding."""
        return (*self.deep_sizes, self.inner_size)[0]

    @property
    def gated_width(self) -> int:
        """Width inside a gated cell."""
        return 2 * self.inner_size if self.gated_size is None else self.gated_size

    @property
    def attention_size(self) -> int:
        """Width of all queries of a position."""
        return self.attention_heads * self.attention_head_size

    @property
    def has_output(self) -> bool:
        """Whether it has an output layer: to tokens, or to the target's hidden size."""
        return not self.share_output or self.project_output or self.inner_size != self.hidden_size

    @property
    def embedding_size(self) -> int:
        """Width of an embedding: of all gates, or of the one that they share."""
        return self.sum_size * (1 if self.tie_gates else self.gates)

    @property
    def output_size(self) -> int:
        """Tokens that the head can draft."""
        return self.vocab_size if self.draft_vocab_size is None else self.draft_vocab_size

    @property
    def embedding_scale(self) -> float:
        """What an embedding is multiplied with before it joins the projected state.

        Source: notes, "Draft heads without a KV cache" (arXiv:2404.19124): emb_w / state_w.
        """
        state_weight: float = 0.5 ** (0.5 / self.positions)
        return math.sqrt((1 - state_weight**2) * self.sum_size / 2) / state_weight
