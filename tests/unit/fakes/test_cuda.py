"""The made-up device follows the rules of a real one."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from tests.fakes.cuda import DEVICE, Graph, MadeUpCuda, made_up_cuda


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[MadeUpCuda]:
    with made_up_cuda(monkeypatch) as made_up:
        yield made_up


@pytest.fixture
def on_device(cuda: MadeUpCuda) -> Tensor:
    made = torch.arange(4.0).to(DEVICE)
    cuda.reset()
    return made


@pytest.mark.parametrize(
    "read",
    [
        lambda given: given.tolist(),
        lambda given: given.cpu(),
        lambda given: given.sum().item(),
        lambda given: bool((given > 1).any()),
        lambda given: given.nonzero(),
        lambda given: given[given > 1],
    ],
    ids=["list", "copy", "item", "condition", "nonzero", "boolean index"],
)
@pytest.mark.parametrize("inference", [True, False])
def test_reading_a_value_waits(
    cuda: MadeUpCuda, on_device: Tensor, read: Callable[[Tensor], object], inference: bool
) -> None:
    with torch.inference_mode(inference):
        read(on_device)

    assert cuda.waits


def test_computing_does_not_wait(cuda: MadeUpCuda, on_device: Tensor) -> None:
    result = (on_device * 2).softmax(-1) + on_device.new_zeros(4)

    assert result.device == DEVICE
    assert result.is_cuda
    assert not cuda.waits


def test_a_copy_to_the_host_that_it_does_not_wait_for_arrives_later(
    cuda: MadeUpCuda, on_device: Tensor
) -> None:
    copy = (on_device + 1).to("cpu", non_blocking=True)
    assert (cuda.waits, cuda.copies_out, copy.tolist()) == ([], 1, [0.0] * 4)

    cuda.synchronize()

    assert copy.tolist() == (on_device + 1).tolist()


def test_only_pinned_memory_is_copied_without_waiting(cuda: MadeUpCuda) -> None:
    torch.ones(3).pin_memory().to(DEVICE, non_blocking=True)
    assert (cuda.copies_in, cuda.waits) == (1, [])

    torch.ones(3).to(DEVICE, non_blocking=True)
    torch.ones(3).pin_memory().to(DEVICE)
    torch.tensor([1, 2], device=DEVICE)

    assert (cuda.copies_in, len(cuda.waits)) == (4, 3)


def test_the_source_of_a_copy_must_not_change(cuda: MadeUpCuda, on_device: Tensor) -> None:
    source = torch.ones(4).pin_memory()
    on_device.copy_(source, non_blocking=True)
    source.zero_()

    with pytest.raises(AssertionError, match="changed before its end"):
        cuda.synchronize()


def test_devices_do_not_mix(on_device: Tensor) -> None:
    with pytest.raises(AssertionError, match="several devices"):
        on_device + torch.ones(4)
    with pytest.raises(AssertionError, match="a list as index"):
        on_device[[0, 2]]


def test_a_graph_repeats_its_operations_on_the_same_memory(on_device: Tensor) -> None:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        doubled = on_device[1:] * 2
        total = doubled.new_zeros(3)
        total += doubled

    on_device.copy_(torch.ones(4).to(DEVICE))
    assert total.tolist() == [2.0, 4.0, 6.0]
    graph.replay()

    assert isinstance(graph, Graph)
    assert total.tolist() == [2.0, 2.0, 2.0]


def test_a_capture_cannot_wait(on_device: Tensor) -> None:
    with (
        pytest.raises(AssertionError, match="waits during a capture"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        on_device.tolist()
