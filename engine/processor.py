"""What the processor of this machine can do (Linux)."""

from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_LISTS = frozenset({"flags", "Features"})  # on x86, on Arm
_BFLOAT16 = frozenset({"amx_bf16", "avx512_bf16", "bf16"})
_TILES = "amx_bf16"


def multiplies_bfloat16(cpuinfo: Path = _CPUINFO) -> bool:
    """Tell whether it has instructions that multiply matrices of bfloat16.

    Without them products of bfloat16 take four times as long as those of float32 from some 16 rows
    on (docs/adr/0027). True where the kernel does not say.

    Args:
        cpuinfo: As proc(5) describes it.
    """
    features = _features(cpuinfo)
    return not features or not _BFLOAT16.isdisjoint(features)


def has_bfloat16_tiles(cpuinfo: Path = _CPUINFO) -> bool:
    """Tell whether it multiplies bfloat16 by tiles (AMX), which our kernels do not use.

    True where the kernel does not say.

    Args:
        cpuinfo: As proc(5) describes it.
    """
    features = _features(cpuinfo)
    return not features or _TILES in features


def _features(cpuinfo: Path) -> frozenset[str]:
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return frozenset()
    named = (line.partition(":") for line in lines)
    lists = (frozenset(value.split()) for name, _, value in named if name.strip() in _LISTS)
    return next(lists, frozenset())
