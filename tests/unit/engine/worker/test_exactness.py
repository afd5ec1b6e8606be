"""Whether results are batch-invariant, stated from a model as it was loaded."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from prometheus_client import CollectorRegistry
from torch import nn

from engine.kernels import is_supported
from engine.worker.exactness import Exactness, publish, state_exactness
from engine.worker.linear import Dispatch
from engine.worker.report import ReportPart, read_reports

needs_kernel = pytest.mark.skipif(
    not is_supported(), reason="needs a processor with AVX2 and FMA, or with AVX-512"
)


def model(dtype: torch.dtype = torch.bfloat16, *, packed: bool = True) -> nn.Module:
    made = nn.Sequential(nn.Embedding(4, 8), nn.LayerNorm(8), nn.Linear(8, 8, bias=False))
    made.to(dtype)
    if packed:
        Dispatch(lambda layer, remove_weight: None)(made[2], False)
    return made


def attention(**fields: Any) -> nn.Module:
    layer = nn.Module()
    layer.impl = SimpleNamespace(
        **{
            "attn_type": "decoder", "sliding_window": -1, "alibi_slopes": None, "sinks": None,
            "logits_soft_cap": 0, "is_fp8_kv_cache": False, "head_size": 64, **fields,
        }
    )  # fmt: skip
    layer.kv_cache, layer.isa = None, "vec"
    return layer


def config(
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.bfloat16,
    eager: bool = True,
    ranks: int = 1,
    ours: bool = True,
    quantization: str | None = None,
) -> Any:
    return SimpleNamespace(
        additional_config={"specgate": {"cpu_kernels": ours}},
        device_config=SimpleNamespace(device_type=device),
        model_config=SimpleNamespace(dtype=dtype, enforce_eager=eager, quantization=quantization),
        parallel_config=SimpleNamespace(tensor_parallel_size=ranks),
    )


@needs_kernel
def test_a_model_that_our_kernels_compute_is_batch_invariant() -> None:
    found = state_exactness(nn.ModuleList([model(), attention()]), config())

    assert found.is_batch_invariant
    assert found.kernel != "vllm"


@needs_kernel
@pytest.mark.parametrize(
    ("reason", "loaded", "fields"),
    [
        ("device", model(), {"device": "cuda"}),
        ("setting", model(packed=False), {"ours": False}),
        ("compiled", model(), {"eager": False}),
        ("dtype", model(torch.float16), {"dtype": torch.float16}),
        ("ranks", model(), {"ranks": 2}),
        ("layer", model(packed=False), {}),
        ("attention", attention(sliding_window=128), {}),
        ("attention", attention(head_size=1024), {}),
    ],
)
def test_what_vllm_computes_is_named(reason: str, loaded: nn.Module, fields: Any) -> None:
    found = state_exactness(loaded, config(**fields))

    assert found.reason == reason
    assert found.detail
    assert found.kernel == "vllm"
    assert not found.is_batch_invariant


@pytest.mark.parametrize(
    ("fields", "dtype"),
    [
        ({}, "bfloat16"),
        ({"dtype": torch.float32}, "float32"),
        ({"quantization": "fp8"}, "fp8"),
        ({"quantization": "awq"}, "bfloat16"),
    ],
)
def test_the_dtype_is_named(fields: Any, dtype: str) -> None:
    assert state_exactness(model(), config(**fields)).dtype == dtype


def test_the_statement_is_published(tmp_path: Any) -> None:
    registry = CollectorRegistry()

    publish(
        Exactness("dtype", "not float16", "vllm", "float16"),
        ReportPart(tmp_path, "exactness", 0),
        registry,
    )

    assert registry.get_sample_value("engine_batch_invariant", {"reason": "dtype"}) == 0
    found: Any = read_reports(tmp_path)
    assert found["engines"][0]["exactness"] == {
        "batch_invariant": False,
        "reason": "dtype",
        "detail": "not float16",
        "kernel": "vllm",
        "dtype": "float16",
    }
