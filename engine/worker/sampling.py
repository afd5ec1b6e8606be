"""Works around limits of vLLM 0.32's sampling with speculation.

vLLM rejects `logit_bias` and `min_p` together with speculation, and samples a seeded request from
other random numbers than without speculation. We give such requests no drafts; the ordinary sampler
then draws their one token per step, and both problems disappear.
"""

from typing import Any

from vllm import SamplingParams
from vllm.v1.sample.logits_processor import BUILTIN_LOGITS_PROCESSORS, LogitsProcessors

from engine.drafting import Control, read_control

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


def read_control_of(params: Any, *, vocabulary: int) -> Control:
    """Read what a request asks of its drafts.

    Args:
        params: Its `SamplingParams`.
        vocabulary: Vocabulary size of the model.
    """
    return read_control(
        params.extra_args,
        vocabulary=vocabulary,
        temperature=temperature_of(params),
        plain=decodes_plainly(params),
    )


def accept_all_requests() -> None:
    """Make vLLM's server in this process accept requests that `decodes_plainly`."""
    SamplingParams._validate_spec_decode = lambda self, speculative_config: None


def all_processors(vllm_config: Any, device: Any, *, pin_memory: bool) -> LogitsProcessors:
    """Return the processors of vLLM without speculation; with speculation it has only one."""
    return LogitsProcessors(
        make(vllm_config, device, pin_memory) for make in BUILTIN_LOGITS_PROCESSORS
    )
