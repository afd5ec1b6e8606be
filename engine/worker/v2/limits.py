"""Refuses requests that vLLM's V2 runner cannot hold, before they reach it.

vLLM 0.32 checks these lengths in its engine only, which ends with the first request that is longer.
"""

from typing import Any

from vllm import SamplingParams
from vllm.exceptions import VLLMValidationError
from vllm.v1.worker.gpu.sample.logit_bias import (
    MAX_NUM_ALLOWED_TOKEN_IDS,
    MAX_NUM_LOGIT_BIAS_TOKENS,
    MAX_NUM_STOP_TOKEN_IDS,
)

_vllms_verify = SamplingParams.verify


def refuse_longer_lists() -> None:
    """Have vLLM's server in this process answer such requests with the status 400."""
    SamplingParams.verify = _verify


def _verify(params: Any, *args: Any, **kwargs: Any) -> None:
    _vllms_verify(params, *args, **kwargs)
    _check("allowed_token_ids", params.allowed_token_ids, MAX_NUM_ALLOWED_TOKEN_IDS)
    _check("logit_bias", params.logit_bias, MAX_NUM_LOGIT_BIAS_TOKENS)
    if params.min_tokens:
        _check("stop_token_ids", params.all_stop_token_ids, MAX_NUM_STOP_TOKEN_IDS)


def _check(name: str, given: Any, most: int) -> None:
    if given is not None and len(given) > most:
        raise VLLMValidationError(
            f"{name} has {len(given)} entries; this worker takes at most {most}", parameter=name
        )
