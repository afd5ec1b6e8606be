"""Copies between host and device: any number of lists at once, and only results are waited for."""

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

Guess = tuple[list[int], list[float]]
"""The tokens that a head drafts for a sequence, and its probability of each."""


def upload(device: torch.device, *lists: Sequence[int]) -> tuple[Tensor, ...]:
    """Return a tensor for each list, int64, in one copy that the host does not wait for."""
    numbers = torch.tensor(list(chain(*lists)), dtype=torch.int64)
    if device.type == "cuda":
        numbers = numbers.pin_memory()
    return tuple(numbers.to(device, non_blocking=True).split(list(map(len, lists))))


def pack(drafted: Tensor, confidence: Tensor) -> Tensor:
    """Put target ids and probabilities, (m, n) each, into one tensor: int32, (2, m, n)."""
    return torch.stack([drafted.to(torch.int32), confidence.contiguous().view(torch.int32)])


def unpack(packed: Tensor) -> list[Guess]:
    """Wait for what `pack` returned, and return it row by row."""
    drafted, confidence = packed.cpu()
    return list(zip(drafted.tolist(), confidence.view(torch.float32).tolist(), strict=True))
