"""Which implementation computes a layer; tests/unit/engine/kernels checks the products."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from vllm.model_executor.layers import utils as vllm_utils
from vllm.model_executor.layers.linear import UnquantizedLinearMethod
from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod

from engine.kernels import PackedLinear, is_supported
from engine.worker import linear
from engine.worker.linear import ALL_ROWS, Dispatch, pack_linear_layers, rows_that_pay

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

    Dispatch(theirs, {torch.float32: ALL_ROWS})(layer, remove_weight)

    found = layer.cpu_linear(rows, layer.weight, bias)
    torch.testing.assert_close(found, functional.linear(rows, weight, bias))
    assert layer.weight.numel() == (0 if remove_weight else 48)
    assert theirs.computed == []


@needs_kernel
def test_larger_batches_fall_back_to_vllm() -> None:
    theirs = Theirs()
    layer = layer_of(torch.randn(8, 6).bfloat16())
    Dispatch(theirs, {torch.bfloat16: 4})(layer, True)

    for count in (1, 4, 5, 9):
        rows = torch.randn(count, 6).bfloat16()
        assert layer.cpu_linear(rows, layer.weight, None).shape == (count, 8)

    assert theirs.computed == [5, 9]


@needs_kernel
def test_a_float32_bias_is_accepted() -> None:
    layer = layer_of(torch.randn(8, 6).bfloat16())
    weight, rows, bias = layer.weight.detach(), torch.randn(2, 6).bfloat16(), torch.randn(8)
    bias = bias.bfloat16().float()
    Dispatch(Theirs(), {torch.bfloat16: 4})(layer, True)

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

    Dispatch(lambda *arguments: asked.append(arguments), {torch.float32: ALL_ROWS})(layer, True)

    assert asked == [(layer, True)]


@pytest.fixture
def utils() -> Iterator[Any]:
    before = vllm_utils.dispatch_cpu_unquantized_gemm
    yield vllm_utils
    vllm_utils.dispatch_cpu_unquantized_gemm = before


@needs_kernel
def test_vllm_layers_use_our_products(utils: Any) -> None:
    weight, rows = torch.randn(8, 6), torch.randn(3, 6)
    pack_linear_layers(torch.float32, 1 << 20)

    for method, kept in ((UnquantizedLinearMethod(), 0), (UnquantizedEmbeddingMethod(), 48)):
        layer = torch.nn.Module()
        layer.weight = torch.nn.Parameter(weight.clone(), requires_grad=False)
        method.process_weights_after_loading(layer)

        assert torch.equal(method.apply(layer, rows), PackedLinear(weight)(rows))
        assert layer.weight.numel() == kept


@needs_kernel
@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("multiplies", [True, False])
def test_products_are_timed_only_if_vllm_has_better_instructions(
    multiplies: bool, pairs: bool, utils: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "has_bfloat16_tiles", lambda: False)
    monkeypatch.setattr(linear, "multiplies_bfloat16", lambda: multiplies)
    monkeypatch.setattr(linear, "multiplies_pairs", lambda: pairs)
    monkeypatch.setattr(linear, "_rows_that_pay", lambda theirs: 4)

    linear.pack_linear_layers(torch.bfloat16, 1 << 20)

    is_measured = multiplies and not pairs
    assert linear.packed_rows(torch.bfloat16) == (4 if is_measured else linear.ALL_ROWS)


@needs_kernel
@pytest.mark.parametrize("weight_bytes", [1 << 30, 5 << 30, 0])
@pytest.mark.parametrize("paid", [0, 16, 1 << 30])
def test_only_small_models_keep_two_copies(
    paid: int, weight_bytes: int, utils: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "has_bfloat16_tiles", lambda: True)
    monkeypatch.setattr(linear, "_rows_that_pay", lambda theirs: paid)

    linear.pack_linear_layers(torch.bfloat16, weight_bytes)

    is_kept = paid == linear.ALL_ROWS or weight_bytes == 1 << 30
    assert linear.packed_rows(torch.bfloat16) == (paid if is_kept else 0)


@pytest.mark.parametrize(
    ("ours", "theirs", "most"),
    [
        ({1: 2.0, 4: 2.0, 16: 2.0}, {1: 1.0, 4: 3.0, 16: 3.0}, 0),
        ({1: 1.0, 4: 1.0, 16: 4.0}, {1: 1.0, 4: 2.0, 16: 3.0}, 4),
        ({1: 1.0, 4: 3.0, 16: 1.0}, {1: 1.0, 4: 2.0, 16: 3.0}, 1),
        ({1: 1.0, 4: 1.0, 16: 3.0}, {1: 1.0, 4: 2.0, 16: 3.0}, 1 << 30),
        ({1: 1.0, 4: 1.0, 16: 3.2}, {1: 1.0, 4: 2.0, 16: 3.0}, 1 << 30),
    ],
)
def test_our_products_serve_sizes_at_which_they_are_about_as_fast(
    ours: dict[int, float], theirs: dict[int, float], most: int
) -> None:
    now = 0.0

    def takes(times: dict[int, float]) -> Any:
        def compute(rows: Tensor) -> None:
            nonlocal now
            now += times[rows.shape[0]]

        return compute

    assert rows_that_pay(takes(ours), takes(theirs), sizes=(1, 4, 16), clock=lambda: now) == most
