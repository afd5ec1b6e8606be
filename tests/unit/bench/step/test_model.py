from typing import Any

import pytest
import torch

from bench.step.model import Kernel, StepModel, kernels_here
from bench.step.plan import SMOLLM2_135M, Shape
from engine.kernels import DecoderSizes

SMALL = Shape(DecoderSizes(64, 96, 6, 2, 32, 32**-0.5, 1e-5), layers=2, vocabulary=50)
KERNELS = kernels_here()

needs_kernels = pytest.mark.skipif(
    not KERNELS, reason="needs a processor with AVX2 and FMA, or with AVX-512"
)


def small(kernel: Kernel) -> StepModel:
    return StepModel(SMALL, kernel, most_tokens=200)


def test_the_shape_is_smollm2s() -> None:
    assert len(SMOLLM2_135M.products) == 121
    # 134,515,008 parameters, without its 61 norms; the embeddings are the last product's weight.
    assert SMOLLM2_135M.weights == 134_515_008 - 61 * 576


@needs_kernels
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_reading_reads_what_the_products_read(kernel: Kernel) -> None:
    model = small(kernel)

    assert model.weight_bytes == SMALL.weights * kernel.dtype.itemsize
    assert float(model.read()) == model.weight_bytes / 4


@needs_kernels
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_every_product_gets_all_rows(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    model = small(kernel)
    products = model._products

    def spied(product: Any) -> Any:
        def multiply(inputs: Any) -> Any:
            seen.append((product.out, *inputs.shape))
            return product(inputs)

        return multiply

    monkeypatch.setattr(model, "_products", [spied(each) for each in products])
    found = model.multiply(3)

    assert seen == [(out, 3, inputs) for out, inputs in SMALL.products]
    assert found.shape == (3, 50)


@needs_kernels
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_forward_pass_gives_logits_that_depend_on_the_context(kernel: Kernel) -> None:
    model = small(kernel)

    whole = model.forward(140, 0)
    last = model.forward(4, 136)
    other = model.forward(4, 186)

    assert whole.shape == (140, 50)
    assert bool(whole.isfinite().all())
    assert torch.equal(last, whole[136:])  # over the keys that the first pass wrote
    assert not torch.equal(other, last)
