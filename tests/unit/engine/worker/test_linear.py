"""Who computes a layer; what the products are is tests/unit/engine/kernels."""

import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from engine.kernels import is_supported

needs_kernel = pytest.mark.skipif(
    not is_supported(), reason="needs a processor with AVX2 and FMA, or with AVX-512"
)


@pytest.fixture(scope="module", autouse=True)
def vllm() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what vllm and torch do while they are imported is theirs
        import engine.worker.linear  # noqa: F401


class Theirs:
    """In vLLM's place: notes for which rows it computes."""

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
def test_all_rows_are_ours_and_the_weight_is_kept_once(remove_weight: bool) -> None:
    from engine.worker.linear import ALL_ROWS, Dispatch

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
def test_more_rows_than_pay_are_theirs() -> None:
    from engine.worker.linear import Dispatch

    theirs = Theirs()
    layer = layer_of(torch.randn(8, 6).bfloat16())
    Dispatch(theirs, {torch.bfloat16: 4})(layer, True)

    for count in (1, 4, 5, 9):
        rows = torch.randn(count, 6).bfloat16()
        assert layer.cpu_linear(rows, layer.weight, None).shape == (count, 8)

    assert theirs.computed == [5, 9]


@needs_kernel
def test_a_bias_may_have_become_float32() -> None:
    from engine.worker.linear import Dispatch

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
def test_other_layers_are_theirs(weight: Tensor) -> None:
    from engine.worker.linear import ALL_ROWS, Dispatch

    asked = []
    layer = layer_of(weight)

    Dispatch(lambda *arguments: asked.append(arguments), {torch.float32: ALL_ROWS})(layer, True)

    assert asked == [(layer, True)]


@pytest.fixture
def utils() -> Iterator[Any]:
    from vllm.model_executor.layers import utils

    before = utils.dispatch_cpu_unquantized_gemm
    yield utils
    utils.dispatch_cpu_unquantized_gemm = before


@needs_kernel
def test_vllm_is_told_once(utils: Any) -> None:
    from engine.worker.linear import ALL_ROWS, pack_linear_layers, packed_rows

    assert packed_rows(torch.float32) == 0
    pack_linear_layers(torch.float32, 1 << 20)
    told = utils.dispatch_cpu_unquantized_gemm
    pack_linear_layers(torch.float32, 1 << 20)

    assert packed_rows(torch.float32) == ALL_ROWS
    assert packed_rows(torch.float16) == 0
    assert utils.dispatch_cpu_unquantized_gemm is told


@needs_kernel
def test_vllm_loads_and_computes_its_layers_with_ours(utils: Any) -> None:
    from vllm.model_executor.layers.linear import UnquantizedLinearMethod
    from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod

    from engine.kernels import PackedLinear
    from engine.worker.linear import pack_linear_layers

    weight, rows = torch.randn(8, 6), torch.randn(3, 6)
    pack_linear_layers(torch.float32, 1 << 20)

    for method, kept in ((UnquantizedLinearMethod(), 0), (UnquantizedEmbeddingMethod(), 48)):
        layer = torch.nn.Module()
        layer.weight = torch.nn.Parameter(weight.clone(), requires_grad=False)
        method.process_weights_after_loading(layer)

        assert torch.equal(method.apply(layer, rows), PackedLinear(weight)(rows))
        assert layer.weight.numel() == kept


@needs_kernel
def test_what_pays_is_measured_where_the_processor_has_tiles(
    utils: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.worker import linear

    monkeypatch.setattr(linear, "has_bfloat16_tiles", lambda: True)
    monkeypatch.setattr(linear, "_SIZES", (1, 4))

    linear.pack_linear_layers(torch.bfloat16, 1 << 20)

    assert linear.packed_rows(torch.float32) == linear.ALL_ROWS
    # Whoever was the faster, layers are computed right, below and above any number of rows.
    layer = layer_of(torch.randn(64, 32).bfloat16())
    weight = layer.weight.detach().float()
    utils.dispatch_cpu_unquantized_gemm(layer, True)
    for count in (1, 4, 300):
        rows = torch.randn(count, 32).bfloat16()
        found = layer.cpu_linear(rows, layer.weight, None).float()
        torch.testing.assert_close(
            found, functional.linear(rows.float(), weight), rtol=2**-7, atol=2**-7
        )


@needs_kernel
@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("multiplies", [True, False])
def test_nothing_is_measured_where_nobody_has_better_instructions(
    multiplies: bool, pairs: bool, utils: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.worker import linear

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
def test_only_a_small_model_is_kept_twice(
    paid: int, weight_bytes: int, utils: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.worker import linear

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
def test_ours_are_taken_as_far_as_they_take_little_longer(
    ours: dict[int, float], theirs: dict[int, float], most: int
) -> None:
    from engine.worker.linear import rows_that_pay

    now = 0.0

    def takes(times: dict[int, float]) -> Any:
        def compute(rows: Tensor) -> None:
            nonlocal now
            now += times[rows.shape[0]]

        return compute

    assert rows_that_pay(takes(ours), takes(theirs), sizes=(1, 4, 16), clock=lambda: now) == most


def test_a_neighbours_burst_decides_nothing() -> None:
    from engine.worker.linear import ALL_ROWS, rows_that_pay

    now, asked = 0.0, 0

    def ours(rows: Tensor) -> None:
        nonlocal now, asked
        asked += 1
        now += 9.0 if asked == 1 else 1.0

    def theirs(rows: Tensor) -> None:
        nonlocal now
        now += 2.0

    assert rows_that_pay(ours, theirs, sizes=(1, 4), clock=lambda: now) == ALL_ROWS
