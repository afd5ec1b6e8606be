"""A draft head without a KV cache: one module for all published layouts and our own.

The target's last hidden state enters once; from there the head continues alone, token by token.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.errors import HeadInputError
from engine.heads.attention import Context, record
from engine.heads.cells import apply_norm, make_input_norm
from engine.heads.config import HeadConfig
from engine.heads.drafting import Drafting, Update
from engine.heads.fold import fold
from engine.heads.stage import Stage, add_up, advance, build_stage
from engine.heads.target import SharedTables, check_tables
from engine.heads.transfer import Guess
from engine.heads.view import Tables, View
from engine.heads.vocabulary import Vocabulary
from engine.heads.weights import HeadWeights, at


class DraftHead(nn.Module):
    """Drafts tokens from the target's last hidden state; trainable.

    Not thread-safe.

    Attributes:
        config: Its shape.
        weights: Its parameters.
        vocabulary: The tokens that it can draft.
        shared: Tables of the target that it reads; not parameters, never saved.
    """

    def __init__(
        self, config: HeadConfig, weights: HeadWeights, vocabulary: Vocabulary, shared: SharedTables
    ) -> None:
        super().__init__()
        check_tables(config, shared, name="head")
        self.config = config
        self.weights = weights
        self.vocabulary = vocabulary
        self.shared = shared
        self._drafting: Drafting | None = None

    @classmethod
    def new(
        cls,
        config: HeadConfig,
        draft_ids: Tensor | Sequence[int] | None = None,
        *,
        embedding: Tensor | None = None,
        output: Tensor | None = None,
        seed: int = 0,
    ) -> Self:
        """Return an untrained head: random float32 weights, on the tables' device or the CPU.

        Args:
            config: Its shape.
            draft_ids: Target ids that it can draft, rising; None for all.
            embedding: The target's input embeddings, if the head shares them.
            output: The weight of the target's output layer, if the head shares it.
            seed: Seed of the weights.

        Raises:
            HeadInputError: The draft ids do not match the configuration.
            HeadTargetError: A shared table is missing or has the wrong shape.
        """
        shared = SharedTables(embedding, output)
        check_tables(config, shared, name="head")
        weights = HeadWeights(config)
        weights.initialise(config, seed=seed, embedding=embedding)
        head = cls(config, weights, Vocabulary(config, draft_ids), shared)
        table = embedding if embedding is not None else output
        return head if table is None else head.to(table.device)

    def unroll(
        self, hidden: Tensor, tokens: Tensor, context: Context | None = None
    ) -> list[Tensor]:
        """Return the state of each position, given the true tokens; differentiable.

        Args:
            hidden: The target's last hidden state after its final norm, (..., hidden_size).
            tokens: int64, (..., n): first the token that the target sampled from `hidden`, then
                the tokens that followed it.
            context: What a head with a window attends to, made from `entries`; states and tokens
                then have the shape (runs * rows per run, ...).

        Returns:
            n states, (..., inner_size).

        Raises:
            HeadInputError: n exceeds the positions of the head.
        """
        self._check_length(tokens.shape[-1])
        state = self._enter(hidden)
        memory, states = None, []
        for position, token in enumerate(tokens.unbind(-1)):
            state, memory = advance(self._stage(position), state, memory, token, context)
            states.append(state)
        return states

    def entries(self, hidden: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of text positions, for a head with a window; differentiable.

        Args:
            hidden: The target's last hidden states, (rows, hidden_size).
            tokens: The token that was sampled from each, int64, (rows,).

        Returns:
            Both of shape (rows, attention_heads, attention_head_size). To make a `Context` of them,
            pair each value with the key of the position before (`engine.heads.attention`).

        Raises:
            HeadInputError: The head has no window.
        """
        self._check_window()
        recorder = self.weights.recorders[0].read(_keep)
        return record(recorder, add_up(self._stage(0), self._enter(hidden), tokens))

    def logits(self, state: Tensor, position: int, more: Tensor | None = None) -> Tensor:
        """Return the logits of a position from its state.

        Args:
            state: What `unroll` returns, (..., inner_size).
            position: Index of that state, from 0.
            more: Target ids beyond the vocabulary, int64, (m,); for a head with `window_tokens`.

        Returns:
            Shape (..., draft_vocab_size + m).
        """
        outputs = self.weights.outputs
        state = at(outputs, position)(state) if outputs else state
        if not self.config.share_output:
            return state
        assert self.shared.output is not None
        rows = self.vocabulary.rows_of(self.shared.output)
        if more is not None:
            rows = torch.cat([rows, self.shared.output[more]])
        return functional.linear(state, rows.to(state.dtype))

    def forward(
        self,
        hidden: Tensor,
        tokens: Tensor,
        context: Context | None = None,
        more: Tensor | None = None,
    ) -> list[Tensor]:
        """Return the logits of each position, given the true tokens; differentiable.

        Arguments and errors are those of `unroll`; `more` is that of `logits`.

        Returns:
            n logits, (..., draft_vocab_size + m): the i-th predicts what follows tokens[..., i].
        """
        return [
            self.logits(state, position, more)
            for position, state in enumerate(self.unroll(hidden, tokens, context))
        ]

    @torch.inference_mode()
    def propose(
        self, hidden: Tensor, tokens: Tensor, n: int, context: Context | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draft n tokens for each row, greedily, without waiting for the device.

        The weights are folded at the first call, and again after `train`, `eval`, `to` or
        `load_state_dict`. After any other change of the weights, call one of these.

        Args:
            hidden: The target's last hidden state after its final norm, at the position that
                produced `tokens`, (m, hidden_size), on the head's device.
            tokens: int64, (m,), on the head's device.
            n: Tokens to draft, at least 1. A head with tied positions can exceed the number that
                it was trained for.
            context: What a head with a window attends to (`View.context`): m runs of one row; None
                for nothing.

        Returns:
            Target ids of the drafts, int64, (m, n), and the head's probability of each token given
            those before it, float32, (m, n). The caller owns both.

        Raises:
            HeadInputError: A shape or n is invalid.
        """
        self._check_length(n)
        rows = tokens.shape[0] if tokens.ndim == 1 else -1
        if hidden.shape != (rows, self.config.hidden_size):
            raise HeadInputError(
                f"found hidden {tuple(hidden.shape)} and tokens {tuple(tokens.shape)}, "
                f"expected (m, {self.config.hidden_size}) and (m,)"
            )
        return self._fold().draft(hidden, tokens, n, context)

    @torch.inference_mode()
    def guess(
        self, states: Tensor, rows: Sequence[int], tokens: Sequence[int], n: int, view: View | None
    ) -> list[Guess]:
        """Draft n tokens for some rows of a step: `propose` for the data that a worker has.

        Args:
            states: The target's last hidden states after its final norm, (any, hidden_size), on
                the head's device.
            rows: Indices into `states`.
            tokens: The token that the target sampled from each of these.
            n: As for `propose`.
            view: What a head with a window attends to, for these rows; None for nothing.

        Returns:
            For each row the target ids of its draft and the head's probability of each token.

        Raises:
            HeadInputError: As for `propose`.
        """
        self._check_length(n)
        if states.ndim != 2 or states.shape[1] != self.config.hidden_size:
            raise HeadInputError(
                f"found states {tuple(states.shape)}, expected (any, {self.config.hidden_size})"
            )
        return self._fold().guess(states, rows, tokens, n, view)

    @torch.inference_mode()
    def capture(self, n: int, *, rows: int, tables: Tables | None) -> None:
        """Capture CUDA graphs, so that `guess` launches few operations; on CPUs there are none.

        Waits for the device. Graphs go where folded weights go: see `propose`.

        Args:
            n: Tokens to draft.
            rows: Most rows of a call.
            tables: The tables of the views that `guess` will get; None without a window.

        Raises:
            HeadInputError: n exceeds the positions of the head.
        """
        self._check_length(n)
        self._fold().capture(n, rows=rows, tables=tables)

    @torch.inference_mode()
    def write(self, update: Update) -> None:
        """Compute entries from states and tokens, and write them to the tables."""
        self._check_window()
        self._fold().write(update)

    @torch.inference_mode()
    def prepare(self) -> None:
        """Fold the weights now instead of at the first `propose`."""
        self._fold()

    def train(self, mode: bool = True) -> Self:
        """Switch between training and evaluation; drops the folded weights."""
        self._drafting = None
        super().train(mode)
        return self

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load parameters as torch does; drops the folded weights."""
        self._drafting = None
        return super().load_state_dict(*args, **kwargs)

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        self._drafting = None
        return super()._apply(*args, **kwargs)

    def _fold(self) -> Drafting:
        if self._drafting is None:
            self._drafting = fold(self.config, self.weights, self.vocabulary, self.shared)
        return self._drafting

    def _enter(self, hidden: Tensor) -> Tensor:
        state = hidden.to(self.weights.dtype)
        if self.config.scale_input:
            state = apply_norm(state, make_input_norm(self.config.hidden_size, state))
        return state

    def _check_window(self) -> None:
        if not self.config.window:
            raise HeadInputError("this head has no window and so no entries")

    def _check_length(self, n: int) -> None:
        most = self.config.positions
        if n < 1 or (n > most and not (self.config.tie_positions and most > 1)):
            raise HeadInputError(f"found {n} positions, expected 1 to {most}")

    def _stage(self, position: int) -> Stage:
        tables = self.weights.embeddings
        return build_stage(
            self.config,
            self.weights,
            position,
            linear=_keep,
            embed=partial(self._embed, at(tables, position)) if tables else None,
            score=partial(self.logits, position=position),
        )

    def _embed(self, own: nn.Module, tokens: Tensor) -> Tensor:
        if not self.config.share_embedding:
            return own(tokens)
        assert self.shared.embedding is not None
        return own(functional.embedding(tokens, self.shared.embedding).to(self.weights.dtype))


def _keep(linear: nn.Module) -> nn.Module:
    return linear
