"""Where vLLM 0.32's sampling stands in the way of speculation: what it refuses, and what it breaks.

It refuses `logit_bias` and `min_p` with speculation, and draws a seeded request's tokens from other
random numbers than without. Requests that ask for these have no drafts, and there is no need for
either: the one token of a step is drawn by the ordinary sampler.
"""

from typing import Any

import torch
from vllm import SamplingParams
from vllm.v1.sample import rejection_sampler
from vllm.v1.sample.logits_processor import BUILTIN_LOGITS_PROCESSORS, LogitsProcessors

# Below these vLLM takes them as not set (`_SAMPLING_EPS`).
_NOTHING = 1e-5


def decodes_plainly(params: Any) -> bool:
    """Whether a request must have no drafts, to get what it would get without speculation."""
    seeded = params.seed is not None and params.temperature > _NOTHING
    return bool(seeded or params.logit_bias or params.min_p > _NOTHING)


def temperature_of(params: Any) -> float:
    """Return the temperature at which a request's text is sampled; 0 for greedy decoding."""
    is_greedy = params.temperature <= _NOTHING or params.top_k == 1
    return 0.0 if is_greedy else float(params.temperature)


def accept_all_requests() -> None:
    """Have vLLM's server in this process take requests that `decodes_plainly`."""
    SamplingParams._validate_spec_decode = lambda self, speculative_config: None


def all_processors(vllm_config: Any, device: Any, *, pin_memory: bool) -> LogitsProcessors:
    """Return the processors that vLLM has without speculation; with it, it has only one."""
    return LogitsProcessors(
        make(vllm_config, device, pin_memory) for make in BUILTIN_LOGITS_PROCESSORS
    )


def mend_verification_on_cpus() -> None:
    """Give each draft token its request's temperature, top-k and top-p; draw what replaces it.

    vLLM 0.32's CPU kernel writes them to a copy (`cpu_triton_utils._expand_kernel_impl`), so that
    drafts are verified with whatever was in memory, and sampled text is noise. And for the token
    that takes the place of a refused one it draws a random number for each token of the vocabulary,
    also for requests without a draft: 11 ms for 16 of them and a vocabulary of 49,152.
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
        values: Shape (requests,).
        cumulative: Draft tokens of each request and those before it; integers, shape (requests,).
        tokens: Draft tokens of all requests.
        replace_from: A value that is replaced.
        replace_to: By what.

    Returns:
        Shape (tokens,), of the dtype of `values`.
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
    """Draw, for each draft token, what takes its place if it is refused.

    From the target's probabilities less the drafter's, which is what rejection sampling needs
    (Leviathan et al., arXiv 2211.17192, section 2.3), by one random number each. The parameters are
    those with which vLLM 0.32 calls it.

    Args:
        max_spec_len: Not needed.
        num_draft_tokens: Of each request.
        cu_num_draft_tokens: Not needed.
        draft_token_ids: Shape (tokens,).
        draft_probs: The drafter's, shape (tokens, vocabulary); None where it was certain.
        target_probs: Same shape.
        sampling_metadata: Its `generators` are those of seeded requests, by their number.
        device: Of all tensors.
        use_fp64_gumbel: Not needed: sums are of 64 bits.

    Returns:
        Shape (tokens,), of the dtype of `draft_token_ids`.
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
    # Where nothing is left the draft cannot be refused, and what is drawn is not looked at.
    return found.squeeze(1).clamp_(max=left.shape[1] - 1).to(draft_token_ids.dtype)
