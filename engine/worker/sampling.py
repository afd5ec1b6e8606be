"""Works around limits of vLLM 0.32's sampling with speculation, and bugs of its CPU kernels.

vLLM rejects `logit_bias` and `min_p` together with speculation, and samples a seeded request from
other random numbers than without speculation. We give such requests no drafts; the ordinary sampler
then draws their one token per step, and both problems disappear.
"""

from typing import Any

import torch
from vllm import SamplingParams
from vllm.v1.sample import rejection_sampler
from vllm.v1.sample.logits_processor import BUILTIN_LOGITS_PROCESSORS, LogitsProcessors

# vLLM treats values below this as unset (`_SAMPLING_EPS`).
_NOTHING = 1e-5


def decodes_plainly(params: Any) -> bool:
    """Whether a request must have no drafts to get the same output as without speculation."""
    seeded = params.seed is not None and params.temperature > _NOTHING
    return bool(seeded or params.logit_bias or params.min_p > _NOTHING)


def temperature_of(params: Any) -> float:
    """Return the temperature at which a request is sampled; 0 for greedy decoding."""
    is_greedy = params.temperature <= _NOTHING or params.top_k == 1
    return 0.0 if is_greedy else float(params.temperature)


def accept_all_requests() -> None:
    """Make vLLM's server in this process accept requests that `decodes_plainly`."""
    SamplingParams._validate_spec_decode = lambda self, speculative_config: None


def all_processors(vllm_config: Any, device: Any, *, pin_memory: bool) -> LogitsProcessors:
    """Return the processors of vLLM without speculation; with speculation it has only one."""
    return LogitsProcessors(
        make(vllm_config, device, pin_memory) for make in BUILTIN_LOGITS_PROCESSORS
    )


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
