"""Which implementation computes a layer; tests/unit/engine/kernels checks the products."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, dequantize, quantize
from safetensors.numpy import save_file
from torch import Tensor
from torch.nn import functional
from vllm.model_executor.layers import utils as vllm_utils
from vllm.model_executor.layers.linear import UnquantizedLinearMethod
from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod

from engine.kernels import PackedLinear, coded_kernels, is_supported, linear_kernels
from engine.models.codes import read_codes
from engine.worker.codes import ModelCodes
from engine.worker.linear import Dispatch, is_ours, linear_kernel, pack_linear_layers

needs_kernel = pytest.mark.skipif(
    not is_supported(), reason="needs a processor with AVX2 and FMA, or with AVX-512"
)


class Theirs:
    """Stands in for vLLM; records the batch sizes that it computes."""

    def __init__(self) -> None:
        self.computed: list[int] = []

    def __call__(self, layer: Any, remove_weight: bool) -> None:
        weight = layer.weight.detach()
        if remove_weight:
            layer.weight = torch.nn.Parameter(torch.empty(0), requires_grad=False)
        layer.cpu_linear = lambda rows, _, bias: self._compute(rows, weight, bias)

    def _compute(self, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        self.computed.append(rows.shape[0])
        return functional.linear(rows, weight, bias)


def layer_of(weight: Tensor) -> Any:
    return SimpleNamespace(weight=torch.nn.Parameter(weight, requires_grad=False))


@needs_kernel
@pytest.mark.parametrize("remove_weight", [True, False])
def test_our_products_serve_all_rows_without_a_second_copy(remove_weight: bool) -> None:
    theirs = Theirs()
    layer, weight = layer_of(torch.randn(8, 6)), torch.randn(8, 6)
    layer.weight.data.copy_(weight)
    rows, bias = torch.randn(300, 6), torch.randn(8)

    Dispatch(theirs)(layer, remove_weight)

    found = layer.cpu_linear(rows, layer.weight, bias)
    torch.testing.assert_close(found, functional.linear(rows, weight, bias))
    assert layer.weight.numel() == (0 if remove_weight else 48)
    assert theirs.computed == []


@needs_kernel
def test_a_float32_bias_is_accepted() -> None:
    layer = layer_of(torch.randn(8, 6).bfloat16())
    weight, rows, bias = layer.weight.detach(), torch.randn(2, 6).bfloat16(), torch.randn(8)
    bias = bias.bfloat16().float()
    Dispatch(Theirs())(layer, True)

    found = layer.cpu_linear(rows, layer.weight, bias)

    expected = functional.linear(rows.float(), weight.float(), bias).bfloat16()
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "weight",
    [torch.ones(2, 3, 4), torch.ones(2, 3, dtype=torch.float16), torch.ones(2, 3, device="meta")],
)
def test_unsupported_layers_stay_with_vllm(weight: Tensor) -> None:
    asked = []
    layer = layer_of(weight)

    Dispatch(lambda *arguments: asked.append(arguments))(layer, True)

    assert asked == [(layer, True)]


@pytest.fixture
def utils() -> Iterator[Any]:
    before = vllm_utils.dispatch_cpu_unquantized_gemm
    yield vllm_utils
    vllm_utils.dispatch_cpu_unquantized_gemm = before


@needs_kernel
def test_vllm_layers_use_our_products(utils: Any) -> None:
    weight, rows = torch.randn(8, 6), torch.randn(3, 6)
    pack_linear_layers()
    pack_linear_layers()  # idempotent

    for method, kept in ((UnquantizedLinearMethod(), 0), (UnquantizedEmbeddingMethod(), 48)):
        layer = torch.nn.Module()
        layer.weight = torch.nn.Parameter(weight.clone(), requires_grad=False)
        method.process_weights_after_loading(layer)

        assert torch.equal(method.apply(layer, rows), PackedLinear(weight)(rows))
        assert layer.weight.numel() == kept
        assert is_ours(layer)
    assert linear_kernel(torch.float32) == linear_kernels(torch.float32)[0]
    assert linear_kernel(torch.float16) == "vllm"


def coded_layer(folder: Path) -> Any:
    """A layer whose weight and codes say the same, in a model's folder."""
    weight = np.random.default_rng(2).standard_normal((96, 64), dtype=np.float32)
    data = quantize(weight, GGMLQuantizationType.Q4_1)
    codes = read_codes(GGMLQuantizationType.Q4_1, data)
    assert codes is not None
    arrays = {f"model.a.down_proj.weight/{name}": array for name, array in codes.arrays().items()}
    save_file(arrays, folder / "model-00001.codes")
    values = torch.from_numpy(dequantize(data, GGMLQuantizationType.Q4_1))
    layer = layer_of(values.bfloat16())
    layer.prefix = "model.a.down_proj"
    return layer


@pytest.mark.skipif(not coded_kernels(), reason="needs a processor with instructions for bfloat16")
def test_a_layer_reads_its_codes_if_they_give_its_weight(tmp_path: Path) -> None:
    layer, other = coded_layer(tmp_path), coded_layer(tmp_path)
    other.weight.data[0, 0] += 1
    weight = layer.weight.detach().clone()
    rows = torch.randn(5, 64).bfloat16()

    for each in (layer, other):
        Dispatch(Theirs(), ModelCodes(tmp_path))(each, True)

    plain = PackedLinear(weight)
    assert torch.equal(layer.cpu_linear(rows, layer.weight, None), plain(rows))
    assert layer.cpu_linear.args[0].bytes < 0.4 * plain.bytes
    # One panel of 32 rows has another weight than its codes say.
    assert 0.5 * plain.bytes < other.cpu_linear.args[0].bytes < 0.6 * plain.bytes
    assert not torch.equal(other.cpu_linear(rows, other.weight, None), plain(rows))


@needs_kernel
@pytest.mark.parametrize("shape", [(95, 64), (96, 32), (4, 8)])
def test_codes_of_another_shape_are_not_those_of_a_layer(
    tmp_path: Path, shape: tuple[int, int]
) -> None:
    layer, rows = coded_layer(tmp_path), torch.randn(3, shape[1]).bfloat16()
    weight = torch.randn(shape).bfloat16()
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)

    Dispatch(Theirs(), ModelCodes(tmp_path))(layer, True)

    assert torch.equal(layer.cpu_linear(rows, layer.weight, None), PackedLinear(weight)(rows))
