"""What a step read of prompts, for a head that looks back: states whose next token was known.

That is also what a request had said before it lost its place, and is read again. Of places that the
prefix cache knew, this process has no states: the window begins behind them.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch

from engine.heads import HeadMemory


def note_prefill(
    memory: HeadMemory,
    hidden: torch.Tensor,
    batch: Any,
    *,
    scheduled: Mapping[str, int],
    sampled: Sequence[Sequence[int]],
    wants: Callable[[str], bool],
    vocabulary: int,
    reused: bool,
) -> None:
    """Tell a head's memory of the rows of prompts in a step, as far as anybody will look at them.

    Args:
        memory: Must not know of the step's sampled tokens yet.
        hidden: States of all places of the step, request by request, (places or more, hidden_size).
        batch: vLLM's `InputBatch` behind the step.
        scheduled: Places of each request.
        sampled: New tokens of each, in the batch's order.
        wants: Whether a request may ever draft with the head; asked of those that are unknown.
        vocabulary: Token ids are below it; those that stand for images or sounds may not be.
        reused: Whether a later step writes to `hidden`, as CUDA graphs do; what is kept of it is
            copied then.
    """
    requests: list[str] = []
    tokens: list[list[int]] = []
    first: list[int] = []
    begin = 0
    rows = len(batch.req_ids)
    # As lists: numbers of numpy's, one by one, cost more than all else here.
    computed_by_row = batch.num_computed_tokens_cpu[:rows].tolist()
    known_by_row = batch.num_tokens_no_spec[:rows].tolist()
    remembered = memory.requests
    for row, request in enumerate(batch.req_ids):
        behind = begin
        begin += scheduled[request]
        if request not in remembered and not wants(request):
            memory.ignore(request)
            continue
        computed = computed_by_row[row]
        known = known_by_row[row] - len(sampled[row])
        if computed >= known - 1:  # most rows: they only decode
            continue
        since = max(computed, known - memory.rows)
        until = min(computed + scheduled[request], known - 1)
        if since >= until:
            continue
        following = batch.token_ids_cpu[row, since + 1 : until + 1].tolist()
        if min(following) < 0 or max(following) >= vocabulary:
            continue
        requests.append(request)
        tokens.append(following)
        first.append(behind + since - computed)
    if not requests:
        return
    if reused:
        lengths = list(map(len, tokens))
        hidden = torch.cat([hidden[at : at + n] for at, n in zip(first, lengths, strict=True)])
        first = list(accumulate(lengths, initial=0))
    memory.note(requests, tokens, hidden, first)
