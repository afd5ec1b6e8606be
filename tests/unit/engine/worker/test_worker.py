"""Whether our CPU kernels compute, by the setting `engine.cpu_kernels`."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.model_executor.layers import utils
from vllm.model_executor.layers.linear import UnquantizedLinearMethod
from vllm.v1.attention.backends.registry import AttentionBackendEnum
from vllm.v1.worker.cpu_worker import CPUWorker

from engine.kernels import is_supported
from engine.worker.attention import Backend
from engine.worker.linear import is_ours, linear_kernel
from engine.worker.worker import PlainWorker

pytestmark = pytest.mark.skipif(
    not is_supported(), reason="needs a processor with AVX2 and FMA, or with AVX-512"
)


@pytest.fixture(autouse=True)
def vllms(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(CPUWorker, "init_device", lambda self: None)
    monkeypatch.setattr(utils, "dispatch_cpu_unquantized_gemm", utils.dispatch_cpu_unquantized_gemm)
    yield
    AttentionBackendEnum.CPU_ATTN.clear_override()


def start(*, on: bool, eager: bool = True, is_second: bool = False) -> None:
    worker: Any = object.__new__(PlainWorker)
    worker.vllm_config = SimpleNamespace(additional_config={"specgate": {"cpu_kernels": on}})
    worker.model_config = SimpleNamespace(enforce_eager=eager, model="org/model")
    worker.use_v2_model_runner = is_second
    worker.init_device()


def layer() -> torch.nn.Module:
    made = torch.nn.Module()
    made.weight = torch.nn.Parameter(torch.randn(8, 6), requires_grad=False)
    UnquantizedLinearMethod().process_weights_after_loading(made)
    return made


@pytest.mark.parametrize(
    ("on", "eager", "linear", "attention"),
    [
        (True, True, True, True),
        (True, False, False, True),
        (False, True, False, False),
        (False, False, False, False),
    ],
)
@pytest.mark.parametrize("is_second", [False, True], ids=["v1", "v2"])
def test_the_setting_decides_whose_kernels_compute(
    on: bool, eager: bool, linear: bool, attention: bool, is_second: bool
) -> None:
    start(on=on, eager=eager, is_second=is_second)

    assert is_ours(layer()) is linear
    assert (linear_kernel(torch.float32) != "vllm") is linear
    assert (AttentionBackendEnum.CPU_ATTN.get_class() is Backend) is attention
