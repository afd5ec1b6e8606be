import pytest
import torch

from engine.training.memory import is_out_of_memory


def test_torch_says_so_when_the_cpu_has_no_memory() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60)

    assert is_out_of_memory(caught.value)


def test_a_gpu_has_an_exception_of_its_own() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert not is_out_of_memory(RuntimeError("shapes cannot be multiplied"))
