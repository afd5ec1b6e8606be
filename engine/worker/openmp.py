"""Finds Intel's OpenMP runtime, which vLLM's CPU worker wants to be loaded before torch.

With it a step costs less: figures in docs/adr/0002.
"""

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

_DISTRIBUTION = "intel-openmp"
_LIBRARY = "libiomp5.so"


def find_openmp() -> Path | None:
    """Return the library's path, or None where it is not installed, as on ARM and with CUDA."""
    try:
        installed = files(_DISTRIBUTION) or []
    except PackageNotFoundError:
        return None
    for entry in installed:
        if entry.name == _LIBRARY:
            return Path(str(entry.locate())).resolve()
    return None


def preload(library: Path | None, *, before: str | None) -> dict[str, str]:
    """Return the variable that has the dynamic linker load `library` first in new processes.

    Args:
        library: What to load; None changes nothing.
        before: The value that `LD_PRELOAD` has already; a runtime in it is kept.
    """
    if library is None or (before and "omp" in before):
        return {}
    return {"LD_PRELOAD": f"{library}:{before}" if before else str(library)}
