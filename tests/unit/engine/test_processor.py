from pathlib import Path

import pytest

from engine.processor import multiplies_bfloat16


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
