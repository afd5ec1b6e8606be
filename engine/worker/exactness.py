"""States whether results are batch-invariant on this worker, and if not, why (docs/exactness.md).

Speculation is exact if a token's logits depend on nothing else in the step. Our CPU kernels have
that property; other implementations change the order of their sums with the shape of the batch.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from prometheus_client import REGISTRY, CollectorRegistry
from torch import nn
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

from engine.kernels import attention_kernels, linear_kernels, tiles
from engine.worker.attention import is_made_for
from engine.worker.linear import is_ours
from engine.worker.metrics import ExactnessMetrics
from engine.worker.report import ReportPart

_log = logging.getLogger(__name__)

_DTYPES = (torch.float32, torch.bfloat16)


@dataclass(frozen=True, slots=True)
class Exactness:
    """What holds for a worker.

    Attributes:
        reason: Why results are not batch-invariant, from a closed set of words; empty if they are.
        detail: The same for people.
        kernel: What computes linear layers: the name of a kernel, or `vllm`.
        dtype: In which the target computes: a torch dtype, or `fp8` if its weights are.
    """

    reason: str
    detail: str
    kernel: str
    dtype: str

    @property
    def is_batch_invariant(self) -> bool:
        """Whether a token's logits depend on nothing else in the step."""
        return not self.reason


def state_exactness(model: nn.Module, vllm_config: Any) -> Exactness:
    """Look at a model that has been loaded.

    Args:
        model: With its weights, as the worker runs it.
        vllm_config: vLLM's configuration of this process.
    """
    dtype = vllm_config.model_config.dtype
    kernel = next(iter(linear_kernels(dtype)), "vllm")
    reason, detail = next(_objections(model, vllm_config), ("", ""))
    is_fp8 = "fp8" in str(vllm_config.model_config.quantization)
    name = "fp8" if is_fp8 else str(dtype).removeprefix("torch.")
    return Exactness(reason, detail, kernel if not reason else "vllm", name)


def _objections(model: nn.Module, vllm_config: Any) -> Iterator[tuple[str, str]]:
    yield from _objections_of(vllm_config)
    for name, layer in model.named_modules():
        if hasattr(layer, "impl") and hasattr(layer, "kv_cache"):
            if not is_made_for(layer.impl, layer, vllm_config.model_config.dtype):
                yield "attention", f"vLLM computes the attention of {name}"
        elif _is_a_product(layer) and not is_ours(layer):
            yield "layer", f"vLLM computes {name} ({type(layer).__name__})"


def _objections_of(vllm_config: Any) -> Iterator[tuple[str, str]]:
    config = vllm_config.model_config
    if vllm_config.device_config.device_type != "cpu":
        yield "device", "vLLM's GPU kernels change the order of sums with the size of the batch"
    if not vllm_config.additional_config["specgate"]["cpu_kernels"]:
        yield "setting", "engine.cpu_kernels is off, so vLLM's kernels compute"
    if not linear_kernels(torch.float32):
        yield "processor", "this processor has neither AVX2 nor AVX-512, so vLLM's kernels compute"
    if not config.enforce_eager:
        yield "compiled", "the model is compiled, and compiled graphs use vLLM's kernels"
    if config.dtype not in _DTYPES or not attention_kernels(config.dtype):
        yield "dtype", f"our kernels compute float32 and bfloat16, not {config.dtype}"
    if vllm_config.parallel_config.tensor_parallel_size > 1:
        yield "ranks", "sums over several ranks are vLLM's"


def _is_a_product(layer: nn.Module) -> bool:
    """Tell whether a layer multiplies by a matrix; an embedding alone looks rows up."""
    if isinstance(layer, nn.Embedding):
        return False
    weights = any(weight.ndim >= 2 for weight in layer.parameters(recurse=False))
    is_lookup = type(layer).__name__ == "VocabParallelEmbedding"
    return isinstance(layer, ParallelLMHead) or (weights and not is_lookup)


def publish(found: Exactness, report: ReportPart, registry: CollectorRegistry = REGISTRY) -> None:
    """Say it in the log, in `GET /speculation` and as a metric.

    Raises:
        OSError: The report cannot be written.
    """
    if tiles() == "refused":
        _log.warning("specgate: this system refuses AMX; the next kernel is used")
    if found.is_batch_invariant:
        _log.info("specgate: results are batch-invariant (kernel %s)", found.kernel)
    else:
        _log.warning("specgate: results are not batch-invariant: %s", found.detail)
    report.write(
        {
            "batch_invariant": found.is_batch_invariant,
            "reason": found.reason,
            "detail": found.detail,
            "kernel": found.kernel,
            "dtype": found.dtype,
        }
    )
    ExactnessMetrics(registry).publish(
        is_batch_invariant=found.is_batch_invariant, reason=found.reason
    )
