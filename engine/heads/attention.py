"""Attention of a head to earlier positions of its text (docs/adr/0017).

A text position consists of a hidden state of the target and the token sampled from it. Key and
value are computed from their sum (see `Stage`). An entry pairs the value of a position with the key
of the position before. A query that asks "what followed a position like this one?" thus finds the
token that followed and the state after it. Entries depend on the target only, not on drafts, so
steps and sequences may still be skipped.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from engine.heads.cells import EPSILON, Linear, Norm, apply_norm


class Context(NamedTuple):
    """The entries that rows may attend to. The first entry of each run is empty: zeros.

    A run is a group of rows that share entries; when drafting, each sequence is a run of one row.

    Attributes:
        keys: Shape (runs, heads, entries, head size).
        values: Same shape.
        mask: Added to the scores: 0, or -inf for entries that a row must not see; shape (runs, rows
            per run, entries). None if every row sees all entries.
        tokens: Target ids of the values' tokens, int64, shape (runs, entries); -1 for none. None
            for a head that does not draft them.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor | None
    tokens: Tensor | None = None

    def seen_tokens(self) -> Tensor | None:
        """Return the tokens visible to each row, shape (runs * rows per run, entries), or -1."""
        if self.tokens is None or self.mask is None:
            return self.tokens
        seen = self.tokens[:, None].masked_fill(self.mask != 0, -1)
        return seen.flatten(0, 1)


class Recorder(NamedTuple):
    """Computes the key and value of a text position.

    Attributes:
        norm: Norm of the sum.
        linear: Projection to keys and then values, (2 * attention size, inner).
        heads: Number of attention heads.
    """

    norm: Norm
    linear: Linear
    heads: int


class Attention(NamedTuple):
    """The weights of attention at one draft position.

    Attributes:
        norm: Norm of the sum.
        query: Projection to the queries of all heads, (attention size, inner).
        leave: Output projection, (inner, attention size).
        sharpness: Factor of the cosine between query and key, (heads, 1).
        sink: Score of the empty entry, (heads, 1).
    """

    norm: Norm
    query: Linear
    leave: Linear
    sharpness: Tensor
    sink: Tensor


def record(recorder: Recorder, total: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys, of length 1, and values of text positions, (rows, heads, head size) each.

    Args:
        recorder: The head's.
        total: The sums of state and token at the first draft position, (rows, inner).
    """
    both = recorder.linear(apply_norm(total, recorder.norm))
    keys, values = both.unflatten(-1, (2, recorder.heads, -1)).unbind(1)
    return _normalise(keys, 1.0), values


def attend(attention: Attention, total: Tensor, context: Context) -> Tensor:
    """Return the sums plus the result of attention.

    Args:
        attention: Of the draft position.
        total: Sums, (runs * rows per run, inner).
        context: The entries to attend to.
    """
    keys, values, mask, _ = context
    runs, heads, entries, width = keys.shape
    rows = total.shape[0] // max(runs, 1)
    queries = attention.query(apply_norm(total, attention.norm)).to(keys.dtype)
    queries = _normalise(queries.view(-1, heads, width), attention.sharpness)
    # All heads of all runs as one batch: with a fourth dimension torch takes 1.5 times as long.
    queries = queries.view(runs, rows, heads, width).transpose(1, 2).reshape(-1, rows, width)
    scores = torch.bmm(queries, keys.flatten(0, 1).transpose(1, 2))
    scores = scores.view(runs, heads, rows, entries)
    if mask is not None:
        scores = scores + mask.unsqueeze(1)
    scores.select(-1, 0).add_(attention.sink)
    shares = torch.softmax(scores, -1, dtype=torch.float32).to(values.dtype)
    found = torch.bmm(shares.view(-1, rows, entries), values.flatten(0, 1))
    found = found.view(runs, heads, rows, width).transpose(1, 2).reshape(-1, heads * width)
    return total + attention.leave(found.to(total.dtype))


def _normalise(vectors: Tensor, length: Tensor | float) -> Tensor:
    """Scale vectors to the given lengths."""
    found = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True, dtype=torch.float32)
    return vectors * (length / found.clamp_min(math.sqrt(EPSILON))).to(vectors.dtype)
