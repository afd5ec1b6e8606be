"""CUDA graphs for our steps, whose requests verify drafts of different lengths."""

from typing import Any

from vllm.v1.worker.gpu import model_runner as vllms
from vllm.v1.worker.gpu.attn_utils import get_varlen_cudagraph_unsupported_backend

_vllms_manager: Any = vllms.ModelCudaGraphManager


def capture_steps_of(runner: Any) -> None:
    """Have vLLM capture what this process's runner will need.

    vLLM captures decoding steps in which each request verifies the longest draft, and runs all
    others in pieces. Its verification with lengths that are set on the device captures steps of any
    lengths, where the attention backend can replay them; ours are such steps, too. Where it cannot,
    steps without drafts are captured, and those that verify run in pieces.

    Args:
        runner: It creates its graphs' manager later, when its attention backends are known.
    """

    def manager(
        *args: Any, decode_query_len: int, varlen_decode: bool = False, **kwargs: Any
    ) -> Any:
        can_vary = varlen_decode or not get_varlen_cudagraph_unsupported_backend(
            runner.attn_groups, runner.vllm_config, decode_query_len
        )
        longest = decode_query_len if can_vary else 1
        return _vllms_manager(*args, decode_query_len=longest, varlen_decode=can_vary, **kwargs)

    vllms.ModelCudaGraphManager = manager
