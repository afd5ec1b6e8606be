"""How torch says that memory ran out."""

import torch


def is_out_of_memory(exc: RuntimeError) -> bool:
    """Tell whether torch raised this because memory ran out, on a GPU or on the CPU."""
    # The CPU's allocator has no exception class of its own.
    return isinstance(exc, torch.OutOfMemoryError) or "can't allocate memory" in str(exc)
