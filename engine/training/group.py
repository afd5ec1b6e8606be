"""The processes of a run: one, or as many as `torchrun` started, which share each batch."""

import contextlib
import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, distributed

# The others wait while the first one writes all of the text, which may take days.
_PATIENCE = datetime.timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Group:
    """One process and its place among all.

    Attributes:
        rank: Its number; 0 is the one that writes files and speaks.
        processes: How many there are.
        device: Where it computes.
    """

    rank: int
    processes: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over all processes, in place."""
        if self.processes > 1:
            distributed.all_reduce(values)
        return values

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.processes > 1:
            distributed.barrier()

    def broadcast(self, values: Tensor, *, owner: int) -> Tensor:
        """Return one process's values, on the CPU, in all processes.

        Args:
            values: The owner's; of the others only shape and dtype count.
            owner: Its rank.
        """
        if self.processes == 1:
            return values
        # As bytes, which every backend carries.
        carried = values.contiguous().view(torch.uint8).to(self.device)
        distributed.broadcast(carried, owner)
        return carried.cpu().view(values.dtype)


@contextlib.contextmanager
def joined_group(environment: Mapping[str, str]) -> Iterator[Group]:
    """Join the processes that `torchrun` started, or be alone.

    Args:
        environment: Of the process; torchrun sets RANK, LOCAL_RANK and WORLD_SIZE.
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
