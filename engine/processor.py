"""Features of this machine's processor (Linux)."""

from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_LISTS = frozenset({"flags", "Features"})  # on x86, on Arm
_BFLOAT16 = frozenset({"amx_bf16", "avx512_bf16", "bf16"})


def multiplies_bfloat16(cpuinfo: Path = _CPUINFO) -> bool:
    """Tell whether the processor has instructions for bfloat16 matrix products.

    Without them, bfloat16 products take four times as long as float32 ones from about 16 rows on
    (docs/adr/0027). True if the kernel does not report features.

    Args:
        cpuinfo: A file in the format of proc(5).
    """
    features = _features(cpuinfo)
    return not features or not _BFLOAT16.isdisjoint(features)


def _features(cpuinfo: Path) -> frozenset[str]:
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return frozenset()
    named = (line.partition(":") for line in lines)
    lists = (frozenset(value.split()) for name, _, value in named if name.strip() in _LISTS)
    return next(lists, frozenset())
