"""The processes of a run, which share each batch: one, or as many as `torchrun` started."""

import contextlib
import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, distributed

# The other processes wait while the first one writes all of the text, which may take days.
_PATIENCE = datetime.timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Group:
    """One process of a run.

    Attributes:
        rank: Its rank; rank 0 writes files and reports.
        processes: Number of processes.
        device: Where it computes.
    """

    rank: int
    processes: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which writes files and reports."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """Sum over all processes, in place; returns `values`."""
        if self.processes > 1:
            distributed.all_reduce(values)
        return values

    def wait(self) -> None:
        """Wait for all processes to arrive."""
        if self.processes > 1:
            distributed.barrier()

    def broadcast(self, values: Tensor, *, owner: int) -> Tensor:
        """Return one process's values, on the CPU, in all processes.

        Args:
            values: The owner's values; in other processes only shape and dtype matter.
            owner: Rank of the owner.
        """
        if self.processes == 1:
            return values
        # As bytes, which every backend supports.
        carried = values.contiguous().view(torch.uint8).to(self.device)
        distributed.broadcast(carried, owner)
        return carried.cpu().view(values.dtype)


@contextlib.contextmanager
def joined_group(environment: Mapping[str, str]) -> Iterator[Group]:
    """Join the processes that `torchrun` started, or run alone.

    Args:
        environment: The process environment; torchrun sets RANK, LOCAL_RANK and WORLD_SIZE.
    """
    local = int(environment.get("LOCAL_RANK", "0"))
    has_cuda = torch.cuda.is_available()
    device = torch.device("cuda", local) if has_cuda else torch.device("cpu")
    if has_cuda:
        torch.cuda.set_device(device)
    if int(environment.get("WORLD_SIZE", "1")) == 1:
        yield Group(0, 1, device)
        return
    distributed.init_process_group("nccl" if has_cuda else "gloo", timeout=_PATIENCE)
    try:
        yield Group(distributed.get_rank(), distributed.get_world_size(), device)
    finally:
        distributed.destroy_process_group()
