"""How many rows of logits a step may compute: one for each next token and each draft token."""

from typing import Any

_MOST_ROWS = 512
"""Most rows of logits in a step, unless there are more than half as many requests.

A step of this many tokens computes long enough that further drafts never pay, and vLLM's largest
CUDA graph has as many. At a vocabulary of 128,000 verifying a row takes 3 to 4 MB.
"""


def most_verified_rows(vllm_config: Any) -> int:
    """Return the most rows of logits that a step computes: next tokens and drafts."""
    requests: int = vllm_config.scheduler_config.max_num_seqs
    budget: int = vllm_config.scheduler_config.max_num_batched_tokens
    longest: int = requests * (1 + vllm_config.num_speculative_tokens)
    # vLLM's memory profile always has two for each request.
    return min(longest, max(_MOST_ROWS, 2 * requests), budget)
