"""Records prompt positions of a step in the memory of a head with a window.

These are hidden states whose next token was already known: prompts, and the earlier output of a
preempted request that is computed again. For positions found in the prefix cache this process has
no states, so the window starts after them.
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
    """Add a step's prompt positions to a head's memory, as far as the window can reach.

    Args:
        memory: Must not have been told of the step's sampled tokens yet.
        hidden: States of all positions of the step, request by request, shape (at least positions,
            hidden_size).
        batch: vLLM's `InputBatch` after the step.
        scheduled: Number of positions of each request in the step.
        sampled: New tokens of each request, in the batch's order.
        wants: Tells whether a request may ever draft with the head; called for unknown requests.
        vocabulary: Vocabulary size; placeholder ids of images or audio may be outside of it.
        reused: Whether a later step overwrites `hidden`, as with CUDA graphs; if so, the states
            are copied.
    """
    requests: list[str] = []
    tokens: list[list[int]] = []
    first: list[int] = []
    begin = 0
    count = len(batch.req_ids)
    # As lists: reading numpy scalars one by one would cost more than everything else here.
    computed_by_request = batch.num_computed_tokens_cpu[:count].tolist()
    known_by_request = batch.num_tokens_no_spec[:count].tolist()
    remembered = memory.requests
    for index, request in enumerate(batch.req_ids):
        offset = begin
        begin += scheduled[request]
        if request not in remembered and not wants(request):
            memory.ignore(request)
            continue
        computed = computed_by_request[index]
        known = known_by_request[index] - len(sampled[index])
        if computed >= known - 1:  # most requests: they only decode
            continue
        since = max(computed, known - memory.reach)
        until = min(computed + scheduled[request], known - 1)
        if since >= until:
            continue
        following = batch.token_ids_cpu[index, since + 1 : until + 1].tolist()
        if min(following) < 0 or max(following) >= vocabulary:
            continue
        requests.append(request)
        tokens.append(following)
        first.append(offset + since - computed)
    if not requests:
        return
    if reused:
        lengths = list(map(len, tokens))
        hidden = torch.cat([hidden[at : at + n] for at, n in zip(first, lengths, strict=True)])
        first = list(accumulate(lengths, initial=0))
    memory.note(requests, tokens, hidden, first)
