"""Requests whose sampling vLLM 0.32 cannot verify drafts for: they decode plainly, and as always.

With speculation vLLM refuses `logit_bias` and `min_p`, and it draws a seeded request's tokens from
other random numbers than without. Where nothing is drafted there is no need for either: the one
token of a step is drawn by the ordinary sampler.
"""

from typing import Any

from vllm import SamplingParams
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
