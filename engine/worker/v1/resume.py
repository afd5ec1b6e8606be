"""The V1 runner's state of a request that resumes an answer; V2 needs nothing of the kind.

V2's state begins with all tokens that a request has, V1's with those of its prompt.
"""

from vllm.v1.worker import gpu_model_runner
from vllm.v1.worker.gpu_input_batch import CachedRequestState

from engine.worker.resume import resumed_tokens

_FACTOR = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio, which spreads neighbouring numbers (Knuth, TAOCP 6.4)."""


class ResumableState(CachedRequestState):
    """vLLM's state of a request, which begins with the resumed tokens."""

    def __post_init__(self) -> None:
        super().__post_init__()
        params = self.sampling_params
        tokens = resumed_tokens(None if params is None else params.extra_args)
        self.output_token_ids.extend(tokens)
        if tokens and self.generator is not None:
            # Where the resumed tokens were sampled, the first numbers of this seed were used up.
            seed = self.generator.initial_seed() + len(tokens) * _FACTOR
            self.generator.manual_seed(seed % 2**63)


def begin_with_resumed_tokens() -> None:
    """Let vLLM's V1 runner in this process begin requests with their resumed tokens."""
    gpu_model_runner.CachedRequestState = ResumableState
