"""The acceptance of a head on recorded text, computed with teacher forcing.

`engine.training.replay` drafts at each row as a worker does. Here all rows of a run share their
matrix products: a draft token counts only if those before it were right, so they may be given.
The result is the same, in a tenth of the time.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.heads import DraftHead
from engine.training.context import Before, look_back, recall
from engine.training.replay import Acceptance, walk
from engine.training.shard import Shard

_RUN_ROWS = 256


def judge(head: DraftHead, shard: Shard) -> Acceptance:
    """Return the acceptance over all answers.

    Args:
        head: On the CPU.
        shard: The text; at least one answer of two tokens.
    """
    positions = head.config.positions
    matched = count_matches(head, shard)
    found = Acceptance(np.zeros(positions, np.int64), np.zeros(positions, np.int64))
    begin = 0
    for length, prompt in zip(shard.lengths, shard.prompts, strict=True):
        found += walk(matched[begin + prompt : begin + length], positions=positions)
        begin += length
    return found


@torch.inference_mode()
def count_matches(head: DraftHead, shard: Shard) -> NDArray[np.int64]:
    """Return for each row how many tokens of its draft match before the first mismatch.

    Values for rows of prompts are undefined.
    """
    rows = len(shard.tokens)
    matched = np.zeros(rows, np.int64)
    ahead = torch.arange(head.config.positions)
    for begin in range(0, rows, _RUN_ROWS):
        at = torch.arange(begin, min(begin + _RUN_ROWS, rows))
        if not bool((at >= shard.answers[at]).any()):
            continue
        wanted = at[:, None] + 1 + ahead
        drafted = _draft(head, shard, at)
        is_match = drafted == shard.tokens[wanted.clamp_max(rows - 1)]
        is_match &= wanted < shard.ends[at][:, None]
        matched[at.numpy()] = is_match.cumprod(1).sum(1).numpy()
    return matched


def _draft(head: DraftHead, shard: Shard, at: Tensor) -> Tensor:
    """Return the likeliest token at each position of consecutive rows, given those before it."""
    before = more = context = None
    if head.config.window:
        before = look_back(shard, at[:1], rows=len(at), window=head.config.window)
        context = recall(head, before)
    if head.config.window_tokens and before is not None:
        unknown = head.vocabulary.left_out(before.tokens)
        more = unknown[unknown >= 0]
    given = at[:, None] + torch.arange(head.config.positions)
    tokens = shard.tokens[given.clamp_max(len(shard.tokens) - 1)]
    scores = head(shard.hidden[at], tokens, context, more)
    ids = head.vocabulary.target_ids(torch.arange(head.config.output_size))
    if more is not None and before is not None:
        ids = torch.cat([ids, more])
        hidden_from = ~_in_window(before, more)
        for score in scores:
            score[:, head.config.output_size :].masked_fill_(hidden_from, float("-inf"))
    return ids[torch.stack([score.argmax(-1) for score in scores], 1)]


def _in_window(before: Before, tokens: Tensor) -> Tensor:
    """Tell which of these tokens each row of a single run may see, bool, [rows, tokens]."""
    seen = (before.mask[0] == 0).float()
    is_token = (before.tokens[0][:, None] == tokens).float()
    is_token[0] = 0.0  # the empty entry
    found: Tensor = seen @ is_token > 0
    return found
