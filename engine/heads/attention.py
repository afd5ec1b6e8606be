"""Attention of a head to earlier rows of its text: what a row leaves behind, what finds it.

A row is a state of the target and the token behind it; their sum (`Stage`) makes its key and
its value. An entry pairs the value of a row with the key of the row before: whoever asks "what came
after a place like this" finds the token that came, and the state it led to. Keys and values
follow from the target alone, not from drafts: rows and steps may be skipped still. See adr/0017.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from engine.heads.cells import EPSILON, Linear, Norm, apply_norm


class Context(NamedTuple):
    """The entries that the rows of some runs may look at; the first one is nothing: zeros.

    Attributes:
        keys: Shape (runs, heads, entries, head size).
        values: Of the same shape.
        mask: Added to scores: 0, or -inf where a row may not look; (runs, rows of a run, entries).
            None where every row may look at all.
        tokens: The target's id of the token of each value's row, int64, (runs, entries); -1 where
            there is none. None for a head that does not draft them.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor | None
    tokens: Tensor | None = None

    def seen_tokens(self) -> Tensor | None:
        """Return the tokens that each row may look at, (runs * rows of a run, entries), or -1."""
        if self.tokens is None or self.mask is None:
            return self.tokens
        seen = self.tokens[:, None].masked_fill(self.mask != 0, -1)
        return seen.flatten(0, 1)


class Recorder(NamedTuple):
    """Makes key and value of a row's sum.

    Attributes:
        norm: Of the sum.
        linear: To keys over values, (2 * attention size, inner).
        heads: How many vectors either consists of.
    """

    norm: Norm
    linear: Linear
    heads: int


class Attention(NamedTuple):
    """Looks for entries, with its weights.

    Attributes:
        norm: Of the sum.
        query: To all heads' queries, (attention size, inner).
        leave: From what they found to the sum, (inner, attention size).
        sharpness: What the cosine between query and key is multiplied with, (heads, 1).
        sink: Score of finding nothing, (heads, 1).
    """

    norm: Norm
    query: Linear
    leave: Linear
    sharpness: Tensor
    sink: Tensor


def record(recorder: Recorder, total: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys, of length 1, and values of rows: (rows, heads, head size) each.

    Args:
        recorder: The head's.
        total: The rows' sums at the first position, (rows, inner).
    """
    both = recorder.linear(apply_norm(total, recorder.norm))
    keys, values = both.unflatten(-1, (2, recorder.heads, -1)).unbind(1)
    return _normalise(keys, 1.0), values


def attend(attention: Attention, total: Tensor, context: Context) -> Tensor:
    """Return the sums with what their rows found added to them.

    Args:
        attention: Of the position.
        total: Sums, (runs * rows of a run, inner).
        context: What there is to find.
    """
    keys, values, mask, _ = context
    runs, heads, entries, width = keys.shape
    rows = total.shape[0] // max(runs, 1)
    queries = attention.query(apply_norm(total, attention.norm)).to(keys.dtype)
    queries = _normalise(queries.view(-1, heads, width), attention.sharpness)
    # All heads of all runs as one batch: with a dimension more, torch takes half as long again.
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
    """Return vectors of these lengths."""
    found = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True, dtype=torch.float32)
    return vectors * (length / found.clamp_min(math.sqrt(EPSILON))).to(vectors.dtype)
