"""Name and features of this machine's processor (Linux)."""

import platform
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_LISTS = frozenset({"flags", "Features"})  # on x86, on Arm
_BFLOAT16 = frozenset({"amx_bf16", "avx512_bf16", "bf16"})
# Identify the kind of a processor: on x86, then on Arm.
_NAMES = (
    "vendor_id", "cpu family", "model", "model name",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part",
)  # fmt: skip
# The features that choose a kernel, ours (engine/kernels, engine/heads) or oneDNN's.
_CHOOSE_KERNELS = _BFLOAT16 | {
    "amx_tile", "asimd", "avx2", "avx512_vnni", "avx512bw", "avx512f", "avx512vl", "fma", "i8mm",
    "sve",
}  # fmt: skip


def multiplies_bfloat16(cpuinfo: Path = _CPUINFO) -> bool:
    """Tell whether the processor has instructions for bfloat16 matrix products.

    Without them, bfloat16 products take four times as long as float32 ones from about 16 rows on
    (docs/adr/0027). True if the kernel does not report features.

    Args:
        cpuinfo: A file in the format of proc(5).
    """
    features = _features(_first(cpuinfo))
    return not features or not _BFLOAT16.isdisjoint(features)


def processor_features(cpuinfo: Path = _CPUINFO) -> frozenset[str]:
    """Return the processor's features by the kernel's names (avx2, amx_tile); empty if unknown."""
    return _features(_first(cpuinfo))


def describe_processor(cpuinfo: Path = _CPUINFO) -> str:
    """Identify the processor in one line: its name, and its features that choose a kernel.

    Two machines with the same line run the same kernels on the same kind of processor. Only the
    architecture if the kernel reports nothing else. (`platform.processor()` is empty on Linux.)

    Args:
        cpuinfo: A file in the format of proc(5).
    """
    facts = _first(cpuinfo)
    named = [facts[name] for name in _NAMES if name in facts]
    return " ".join([platform.machine(), *named, *sorted(_features(facts) & _CHOOSE_KERNELS)])


def _features(facts: dict[str, str]) -> frozenset[str]:
    return frozenset(word for name in _LISTS for word in facts.get(name, "").split())


def _first(cpuinfo: Path) -> dict[str, str]:
    """Return the facts about the first core; empty if the file does not exist."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    facts: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    return facts
