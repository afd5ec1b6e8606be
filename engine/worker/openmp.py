"""Finds Intel's OpenMP runtime, which vLLM's CPU worker expects to be loaded before torch.

It makes steps faster; docs/adr/0002 has the figures.
"""

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

_DISTRIBUTION = "intel-openmp"
_LIBRARY = "libiomp5.so"


def find_openmp() -> Path | None:
    """Return the library's path; None if it is not installed, as on ARM and with CUDA."""
    try:
        installed = files(_DISTRIBUTION) or []
    except PackageNotFoundError:
        return None
    for entry in installed:
        if entry.name == _LIBRARY:
            return Path(str(entry.locate())).resolve()
    return None


def preload(library: Path | None, *, before: str | None) -> dict[str, str]:
    """Return the variable that makes the dynamic linker load `library` first in new processes.

    Args:
        library: The library; None changes nothing.
        before: Current value of `LD_PRELOAD`; an OpenMP runtime in it takes precedence.
    """
    if library is None or (before and "omp" in before):
        return {}
    return {"LD_PRELOAD": f"{library}:{before}" if before else str(library)}
