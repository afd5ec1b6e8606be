"""Verifies drafts on CPUs without vLLM's way round; steps that want more than tokens are vLLM's.

For every drafted place vLLM 0.32 copies the logits three times, looks for their maximum with
torch's slow `argmax`, and where tokens are drawn also draws what would replace the draft's token
were it refused. Here a place costs one look, and what follows a draft is drawn once for each
request, by vLLM's own sampler, at the place where it ended. Figures are in docs/adr/0014.
"""

from collections.abc import Sequence
from itertools import takewhile
from operator import eq
from typing import Any

import torch
from vllm.v1.outputs import SamplerOutput
from vllm.v1.sample.logits_processor.builtin import (
    LogitBiasLogitsProcessor,
    MinTokensLogitsProcessor,
)
from vllm.v1.sample.rejection_sampler import PLACEHOLDER_TOKEN_ID
from vllm.v1.sample.sampler import Sampler

from engine.worker.sampling import expand_batch_to_tokens


def wants_only_tokens(sampling: Any) -> bool:
    """Whether the tokens of a step depend on the model's logits and temperatures alone.

    Args:
        sampling: vLLM's `SamplingMetadata`.
    """
    holder = sampling.thinking_budget_state_holder
    return bool(
        sampling.no_penalties
        and sampling.top_k is None
        and sampling.top_p is None
        and sampling.max_num_logprobs is None
        and not sampling.logprob_token_ids
        and sampling.allowed_token_ids_mask is None
        and not sampling.bad_words_token_ids
        and not any(map(_changes_logits, sampling.logitsprocs.non_argmax_invariant))
        and (holder is None or not holder.has_tracked_requests())
    )


def verify(metadata: Any, logits: torch.Tensor, sampling: Any, sampler: Any) -> SamplerOutput:
    """Accept a part of each draft, and sample the token behind it.

    Args:
        metadata: vLLM's `SpecDecodeMetadata`.
        logits: Shape (drafted + requests, vocabulary), on a CPU: of each request its draft's places
            and the one behind.
        sampling: vLLM's `SamplingMetadata`, of which `wants_only_tokens` is true.
        sampler: vLLM's, for a step without drafts.

    Returns:
        Tokens of shape (requests, longest draft + 1), filled up with vLLM's placeholder.
    """
    if sampling.all_greedy:
        rows = _the_likeliest(metadata, logits)
    else:
        rows = _drawn(metadata, logits, sampling, sampler)
    width = metadata.max_spec_len + 1
    filled = [row + [PLACEHOLDER_TOKEN_ID] * (width - len(row)) for row in rows]
    return SamplerOutput(torch.tensor(filled, dtype=torch.int32), logprobs_tensors=None)


def _the_likeliest(metadata: Any, logits: torch.Tensor) -> list[list[int]]:
    likeliest = Sampler.greedy_sample(logits.to(torch.float32)).tolist()
    rows = []
    place = 0
    for draft in _drafts(metadata):
        ours = likeliest[place : place + len(draft) + 1]
        rows.append(ours[: _accepted(map(eq, ours, draft)) + 1])
        place += len(draft) + 1
    return rows


def _drawn(metadata: Any, logits: torch.Tensor, sampling: Any, sampler: Any) -> list[list[int]]:
    """Take a token x with its chance p(x); for the first that is not taken draw from p without x.

    That is speculative sampling with a drafter that is certain of each token (Leviathan et al.,
    arXiv 2211.17192, section 2.3).
    """
    chances = _chances(metadata, logits, sampling)
    taken = (torch.rand(len(chances), dtype=torch.float64) < chances).tolist()
    rows, ends = [], []
    refused: tuple[list[int], list[int]] = [], []
    place = first = 0
    for row, draft in enumerate(_drafts(metadata)):
        accepted = _accepted(taken[first : first + len(draft)])
        if accepted < len(draft):
            refused[0].append(row)
            refused[1].append(draft[accepted])
        rows.append(draft[:accepted])
        ends.append(place + accepted)
        place += len(draft) + 1
        first += len(draft)
    last = logits.index_select(0, torch.tensor(ends)).to(torch.float32)
    if refused[0]:
        last[refused] = -torch.inf
    following = sampler(logits=last, sampling_metadata=sampling).sampled_token_ids
    return [row + token for row, token in zip(rows, following.tolist(), strict=True)]


def _chances(metadata: Any, logits: torch.Tensor, sampling: Any) -> torch.Tensor:
    """Return the target's chance of each drafted token; shape (drafted,)."""
    drafted = metadata.draft_token_ids.long()
    temperature = expand_batch_to_tokens(
        sampling.temperature, metadata.cu_num_draft_tokens, len(drafted)
    )
    greedy = temperature == 0.0
    places = logits.index_select(0, metadata.target_logits_indices).to(torch.float32)
    certain = None if sampling.all_random else Sampler.greedy_sample(places) == drafted
    places.div_(temperature.masked_fill(greedy, 1.0).unsqueeze(1))
    chances = places.softmax(-1).gather(1, drafted.unsqueeze(1)).squeeze(1)
    return chances if certain is None else torch.where(greedy, certain.to(chances.dtype), chances)


def _drafts(metadata: Any) -> list[list[int]]:
    drafted: Sequence[int] = metadata.draft_token_ids.tolist()
    ends = metadata.cu_num_draft_tokens.tolist()
    return [list(drafted[a:b]) for a, b in zip([0, *ends], ends, strict=False)]


def _accepted(verdicts: Any) -> int:
    return sum(takewhile(bool, verdicts))


def _changes_logits(processor: Any) -> bool:
    if isinstance(processor, LogitBiasLogitsProcessor):
        return bool(processor.biases)
    if isinstance(processor, MinTokensLogitsProcessor):
        return bool(processor.min_toks)
    return True  # of somebody else: what it does is not known
