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


def accept_all_requests() -> None:
    """Have vLLM's server in this process take requests that `decodes_plainly`."""
    SamplingParams._validate_spec_decode = lambda self, speculative_config: None


def all_processors(vllm_config: Any, device: Any, *, pin_memory: bool) -> LogitsProcessors:
    """Return the processors that vLLM has without speculation; with it, it has only one."""
    return LogitsProcessors(
        make(vllm_config, device, pin_memory) for make in BUILTIN_LOGITS_PROCESSORS
    )


def mend_verification_on_cpus() -> None:
    """Give each draft token its request's temperature, top-k and top-p.

    vLLM 0.32's CPU kernel writes them to a copy (`cpu_triton_utils._expand_kernel_impl`), so that
    drafts are verified with whatever was in memory, and sampled text is noise.
    """
    rejection_sampler.expand_batch_to_tokens = expand_batch_to_tokens


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
