import platform
from pathlib import Path

import pytest

from engine.processor import describe_processor, multiplies_bfloat16


@pytest.mark.parametrize(
    ("lines", "multiplies"),
    [
        (["flags\t\t: fpu avx512f avx512_vnni"], False),
        (["flags\t\t: fpu avx512f avx512_bf16 avx512_vnni"], True),
        (["flags\t\t: fpu amx_bf16 avx512f"], True),
        (["Features\t: fp asimd i8mm bf16"], True),
        (["Features\t: fp asimd"], False),
        (["model name\t: bf16"], True),
        (["processor\t: 0", "flags\t\t: fpu", "processor\t: 1", "flags\t\t: fpu"], False),
        ([], True),
    ],
    ids=["AVX-512", "its bfloat16", "AMX", "Arm", "Arm without", "no list", "two cores", "empty"],
)
def test_features_come_from_cpuinfo(tmp_path: Path, lines: list[str], multiplies: bool) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("\n".join(lines), encoding="utf-8")

    assert multiplies_bfloat16(cpuinfo) is multiplies


XEON = [
    "processor\t: 0",
    "vendor_id\t: GenuineIntel",
    "cpu family\t: 6",
    "model\t\t: 207",
    "model name\t: Intel(R) Xeon(R) Processor",
    "cpu MHz\t\t: 2300.000",
    "flags\t\t: fpu avx2 fma avx512f avx512bw avx512_bf16 xsavec",
    "processor\t: 1",
    "cpu MHz\t\t: 3100.000",
]


def describe(tmp_path: Path, lines: list[str]) -> str:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("\n".join(lines), encoding="utf-8")
    return describe_processor(cpuinfo)


def test_a_processor_is_described_by_its_name_and_what_kernels_use(tmp_path: Path) -> None:
    found = describe(tmp_path, XEON)

    name = "GenuineIntel 6 207 Intel(R) Xeon(R) Processor"
    assert found == f"{platform.machine()} {name} avx2 avx512_bf16 avx512bw avx512f fma"


@pytest.mark.parametrize(
    ("line", "other"),
    [
        (2, "cpu family\t: 25"),
        (3, "model\t\t: 143"),
        (6, "flags\t\t: fpu avx2 fma avx512f avx512bw xsavec"),
        (6, "flags\t\t: fpu avx2 fma avx512f avx512bw avx512_bf16 amx_tile amx_bf16"),
    ],
    ids=["family", "model", "no bfloat16", "AMX"],
)
def test_processors_with_other_step_times_differ(tmp_path: Path, line: int, other: str) -> None:
    changed = [*XEON[:line], other, *XEON[line + 1 :]]

    assert describe(tmp_path, changed) != describe(tmp_path, XEON)


def test_the_clock_and_other_flags_do_not_matter(tmp_path: Path) -> None:
    changed = [*XEON[:5], "cpu MHz\t\t: 999", XEON[6] + " pku"]

    assert describe(tmp_path, changed) == describe(tmp_path, XEON)


def test_an_arm_processor_is_described(tmp_path: Path) -> None:
    lines = ["Features\t: fp asimd bf16", "CPU implementer\t: 0x41", "CPU part\t: 0xd4f"]

    assert describe(tmp_path, lines).endswith("0x41 0xd4f asimd bf16")


def test_this_machine_is_more_than_its_architecture() -> None:
    assert describe_processor() != platform.machine()


def test_without_a_list_the_architecture_remains(tmp_path: Path) -> None:
    assert describe_processor(tmp_path / "none") == platform.machine()
