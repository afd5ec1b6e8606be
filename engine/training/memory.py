"""Recognises torch's out-of-memory errors."""

import torch


def is_out_of_memory(exc: RuntimeError) -> bool:
    """Tell whether torch raised this error because memory ran out, on a GPU or the CPU."""
    # The CPU allocator has no exception class of its own.
    return isinstance(exc, torch.OutOfMemoryError) or "can't allocate memory" in str(exc)
