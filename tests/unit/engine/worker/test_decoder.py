"""Which models one call computes; tests/unit/engine/kernels/test_decoder.py checks the results."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, MistralConfig, PretrainedConfig, Qwen2Config, Qwen3Config
from vllm.model_executor.models.llama import LlamaModel

from engine.kernels import is_supported
from engine.worker.decoder import compute_in_one_call, is_in_one_call

pytestmark = pytest.mark.skipif(
    not is_supported(), reason="needs a processor with AVX2 and FMA, or with AVX-512"
)


def model() -> nn.Module:
    """A model of a known class whose layers are not vLLM's."""
    inner: Any = object.__new__(LlamaModel)
    nn.Module.__init__(inner)
    inner.layers = nn.ModuleList([nn.Linear(1, 1)])
    inner.embed_tokens = nn.Embedding(2, 2)
    outer = nn.Module()
    outer.model = inner
    return outer


def settings(config: PretrainedConfig, **fields: Any) -> Any:
    usual = {
        "lora_config": None,
        "quant_config": None,
        "kv_transfer_config": None,
        "parallel_config": SimpleNamespace(tensor_parallel_size=1, pipeline_parallel_size=1),
        "model_config": SimpleNamespace(hf_config=config, dtype=torch.bfloat16, enforce_eager=True),
    }
    return SimpleNamespace(**(usual | fields))


def reason(loaded: nn.Module, vllm_config: Any, caplog: pytest.LogCaptureFixture) -> str:
    with caplog.at_level(logging.INFO, "engine.worker.decoder"):
        assert not compute_in_one_call(loaded, vllm_config, [])
    assert not is_in_one_call(loaded)
    (record,) = caplog.records
    return record.getMessage()


def test_another_architecture_stays_with_vllm(caplog: pytest.LogCaptureFixture) -> None:
    found = reason(nn.Linear(2, 2), settings(LlamaConfig()), caplog)

    assert "Linear is not a known architecture" in found


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (LlamaConfig(residual_multiplier=0.2), "residual_multiplier"),
        (MistralConfig(llama_4_scaling={"beta": 1}), "llama_4_scaling"),
        (Qwen2Config(qk_norm=True), "qk_norm"),
        (Qwen3Config(layer_types=["sliding_attention"] * 32), "sliding_attention"),
        (LlamaConfig(intermediate_size=11001), "intermediate_size is 11001"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_key_that_is_not_known_is_named(
    config: PretrainedConfig, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert key in reason(model(), settings(config), caplog)


@pytest.mark.parametrize(
    "config", [LlamaConfig(), MistralConfig(), Qwen2Config(), Qwen3Config()], ids=type
)
def test_usual_configs_are_known_and_unknown_modules_named(
    config: PretrainedConfig, caplog: pytest.LogCaptureFixture
) -> None:
    assert "embed_tokens is a Embedding" in reason(model(), settings(config), caplog)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"lora_config": object()}, "LoRA"),
        ({"quant_config": object()}, "quantization"),
        ({"kv_transfer_config": object()}, "kv_transfer_config"),
        (
            {"parallel_config": SimpleNamespace(tensor_parallel_size=2, pipeline_parallel_size=1)},
            "tensor_parallel_size",
        ),
        (
            {
                "model_config": SimpleNamespace(
                    hf_config=LlamaConfig(), dtype=torch.float16, enforce_eager=True
                )
            },
            "no kernel for torch.float16",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_settings_that_are_not_known_are_named(
    fields: dict[str, Any], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert name in reason(model(), settings(LlamaConfig(), **fields), caplog)
