"""Samples and verifies on CPUs faster than vLLM; steps that need more than tokens are left to it.

For every drafted position vLLM 0.32 copies the logits three times and finds their maximum with
torch's slow `argmax`; when sampling it also draws a replacement for each draft token in case it is
rejected. Here each position is read once, and vLLM's own sampler draws one token per request, at
the position where its draft ended. docs/adr/0014 has the figures. `mend_verification_on_cpus` is
for the steps that are left to vLLM.
"""

from collections.abc import Sequence
from itertools import takewhile
from operator import eq
from typing import Any

import torch
from vllm.v1.outputs import SamplerOutput
from vllm.v1.sample import rejection_sampler
from vllm.v1.sample.logits_processor.builtin import (
    LogitBiasLogitsProcessor,
    MinTokensLogitsProcessor,
)
from vllm.v1.sample.rejection_sampler import PLACEHOLDER_TOKEN_ID

from engine.kernels import greatest_of_rows


def wants_only_tokens(sampling: Any) -> bool:
    """Tell whether a step's tokens depend only on the logits and the temperatures.

    Args:
        sampling: vLLM's `SamplingMetadata`.
    """
    return bool(
        leaves_logits(sampling)
        and sampling.top_k is None
        and sampling.top_p is None
        and sampling.max_num_logprobs is None
        and not sampling.logprob_token_ids
    )


def leaves_logits(sampling: Any) -> bool:
    """Tell whether nothing but temperature, top-k and top-p shapes a step's probabilities.

    Args:
        sampling: vLLM's `SamplingMetadata`.
    """
    holder = sampling.thinking_budget_state_holder
    return bool(
        sampling.no_penalties
        and sampling.allowed_token_ids_mask is None
        and not sampling.bad_words_token_ids
        and not any(map(_changes_logits, sampling.logitsprocs.non_argmax_invariant))
        and (holder is None or not holder.has_tracked_requests())
    )


def take_likeliest(logits: torch.Tensor) -> SamplerOutput:
    """Sample greedily in a step without drafts.

    Args:
        logits: Shape (requests, vocabulary), on a CPU.

    Returns:
        Tokens of shape (requests, 1).
    """
    tokens = greatest_of_rows(logits).to(torch.int32).unsqueeze(1)
    return SamplerOutput(tokens, logprobs_tensors=None)


def verify(metadata: Any, logits: torch.Tensor, sampling: Any, sampler: Any) -> SamplerOutput:
    """Accept a prefix of each draft, and sample the token after it.

    Args:
        metadata: vLLM's `SpecDecodeMetadata`.
        logits: Shape (drafted + requests, vocabulary), on a CPU: for each request the positions of
            its draft and the one after.
        sampling: vLLM's `SamplingMetadata`, for which `wants_only_tokens` is true.
        sampler: vLLM's sampler for steps without drafts.

    Returns:
        Tokens of shape (requests, longest draft + 1), padded with vLLM's placeholder.
    """
    if sampling.all_greedy:
        sequences = _verify_greedily(metadata, logits)
    else:
        sequences = _verify_sampled(metadata, logits, sampling, sampler)
    width = metadata.max_spec_len + 1
    filled = [tokens + [PLACEHOLDER_TOKEN_ID] * (width - len(tokens)) for tokens in sequences]
    return SamplerOutput(torch.tensor(filled, dtype=torch.int32), logprobs_tensors=None)


def _verify_greedily(metadata: Any, logits: torch.Tensor) -> list[list[int]]:
    likeliest = greatest_of_rows(logits).tolist()
    sequences = []
    position = 0
    for draft in _drafts(metadata):
        ours = likeliest[position : position + len(draft) + 1]
        sequences.append(ours[: _accepted(map(eq, ours, draft)) + 1])
        position += len(draft) + 1
    return sequences


def _verify_sampled(
    metadata: Any, logits: torch.Tensor, sampling: Any, sampler: Any
) -> list[list[int]]:
    """Accept a draft token x with probability p(x); after a rejection, sample from p without x.

    This is speculative sampling with a drafter that gives each token probability 1 (Leviathan et
    al., arXiv 2211.17192, section 2.3).
    """
    probabilities = _target_probabilities(metadata, logits, sampling)
    taken = (torch.rand(len(probabilities), dtype=torch.float64) < probabilities).tolist()
    sequences, ends = [], []
    rejected: tuple[list[int], list[int]] = [], []
    position = first = 0
    for row, draft in enumerate(_drafts(metadata)):
        accepted = _accepted(taken[first : first + len(draft)])
        if accepted < len(draft):
            rejected[0].append(row)
            rejected[1].append(draft[accepted])
        sequences.append(draft[:accepted])
        ends.append(position + accepted)
        position += len(draft) + 1
        first += len(draft)
    last = logits.index_select(0, torch.tensor(ends)).to(torch.float32)
    if rejected[0]:
        last[rejected] = -torch.inf
    following = sampler(logits=last, sampling_metadata=sampling).sampled_token_ids
    return [tokens + token for tokens, token in zip(sequences, following.tolist(), strict=True)]


def _target_probabilities(metadata: Any, logits: torch.Tensor, sampling: Any) -> torch.Tensor:
    """Return the target's probability of each drafted token; shape (drafted,)."""
    drafted = metadata.draft_token_ids.long()
    temperature = expand_batch_to_tokens(
        sampling.temperature, metadata.cu_num_draft_tokens, len(drafted)
    )
    greedy = temperature == 0.0
    scores = logits.index_select(0, metadata.target_logits_indices).to(torch.float32)
    certain = None if sampling.all_random else greatest_of_rows(scores) == drafted
    scores.div_(temperature.masked_fill(greedy, 1.0).unsqueeze(1))
    found = scores.softmax(-1).gather(1, drafted.unsqueeze(1)).squeeze(1)
    return found if certain is None else torch.where(greedy, certain.to(found.dtype), found)


def _drafts(metadata: Any) -> list[list[int]]:
    drafted: Sequence[int] = metadata.draft_token_ids.tolist()
    ends = metadata.cu_num_draft_tokens.tolist()
    return [list(drafted[a:b]) for a, b in zip([0, *ends], ends, strict=False)]


def _accepted(decisions: Any) -> int:
    return sum(takewhile(bool, decisions))


def _changes_logits(processor: Any) -> bool:
    if isinstance(processor, LogitBiasLogitsProcessor):
        return bool(processor.biases)
    if isinstance(processor, MinTokensLogitsProcessor):
        return bool(processor.min_toks)
    return True  # a custom processor: its effect is unknown


def mend_verification_on_cpus() -> None:
    """Replace two broken or slow CPU functions of vLLM 0.32's rejection sampler.

    `cpu_triton_utils._expand_kernel_impl` writes each draft token's temperature, top-k and top-p to
    a copy, so drafts are verified with uninitialised memory and sampled text is noise. To replace a
    rejected token, vLLM draws one random number per vocabulary entry, even for requests without a
    draft: 11 ms for 16 requests and a vocabulary of 49,152.
    """
    rejection_sampler.expand_batch_to_tokens = expand_batch_to_tokens
    rejection_sampler.sample_recovered_tokens = sample_recovered_tokens


def expand_batch_to_tokens(
    values: torch.Tensor,
    cumulative: torch.Tensor,
    tokens: int,
    replace_from: int = 0,
    replace_to: int = 0,
) -> torch.Tensor:
    """Repeat each request's value for each of its draft tokens.

    Args:
        values: One value per request, shape (requests,).
        cumulative: Cumulative number of draft tokens, integers, shape (requests,).
        tokens: Draft tokens of all requests.
        replace_from: A value to replace.
        replace_to: Its replacement.

    Returns:
        Shape (tokens,), dtype of `values`.
    """
    counts = torch.diff(cumulative, prepend=cumulative.new_zeros(1))
    replaced = values.masked_fill(values == replace_from, replace_to)
    return replaced.repeat_interleave(counts, output_size=tokens)


def sample_recovered_tokens(
    max_spec_len: int,
    num_draft_tokens: list[int],
    cu_num_draft_tokens: torch.Tensor,
    draft_token_ids: torch.Tensor,
    draft_probs: torch.Tensor | None,
    target_probs: torch.Tensor,
    sampling_metadata: Any,
    device: torch.device,
    use_fp64_gumbel: bool = False,
) -> torch.Tensor:
    """Draw, for each draft token, the token that replaces it if it is rejected.

    Samples from max(0, target - draft probabilities), as rejection sampling requires (Leviathan et
    al., arXiv 2211.17192, section 2.3), with one random number per draft token. The signature is
    that of vLLM 0.32.

    Args:
        max_spec_len: Unused.
        num_draft_tokens: Draft tokens of each request.
        cu_num_draft_tokens: Unused.
        draft_token_ids: Shape (tokens,).
        draft_probs: The drafter's probabilities, shape (tokens, vocabulary); None if each draft
            token had probability 1.
        target_probs: The target's probabilities, same shape.
        sampling_metadata: Its `generators` are those of seeded requests, by index in the batch.
        device: Device of all tensors.
        use_fp64_gumbel: Unused; sums are computed in float64.

    Returns:
        Shape (tokens,), dtype of `draft_token_ids`.
    """
    if draft_probs is None:
        left = target_probs.scatter(1, draft_token_ids.long().unsqueeze(1), 0.0)
    else:
        left = (target_probs - draft_probs).clamp_(min=0.0)
    uniform = torch.rand(len(left), dtype=torch.float64, device=device)
    begin = 0
    for number, count in enumerate(num_draft_tokens):
        generator = sampling_metadata.generators.get(number)
        if count and generator is not None:
            uniform[begin : begin + count].uniform_(generator=generator)
        begin += count
    sums = left.cumsum(-1, dtype=torch.float64)
    found = torch.searchsorted(sums, uniform.unsqueeze(1) * sums[:, -1:], right=True)
    # If no probability is left, the draft token cannot be rejected and the result is not used.
    return found.squeeze(1).clamp_(max=left.shape[1] - 1).to(draft_token_ids.dtype)
