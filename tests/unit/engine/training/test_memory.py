import pytest
import torch

from engine.training.memory import is_out_of_memory


def test_the_cpus_error_is_recognised() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60)

    assert is_out_of_memory(caught.value)


def test_the_gpus_error_is_recognised() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert not is_out_of_memory(RuntimeError("shapes cannot be multiplied"))
