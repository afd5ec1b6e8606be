"""Long random runs of the C++ cores under AddressSanitizer, UBSan and ThreadSanitizer.

Each runs for SANITIZE_SECONDS (set by `make test-all`), by default a few seconds. Programs stay
in build/, so a second run does not compile them again.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from engine.kernels import linear_kernels

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).parent
SECONDS = float(os.environ.get("SANITIZE_SECONDS", "4"))
MOST_MEMORY_MB = 1500

OPTIONS = {
    "ASAN_OPTIONS": f"handle_abort=1:hard_rss_limit_mb={MOST_MEMORY_MB}",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": f"halt_on_error=1:hard_rss_limit_mb={MOST_MEMORY_MB}",
}


def run(command: list[str], *, seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=os.environ | OPTIONS,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def require_sanitizer(name: str, folder: Path) -> None:
    """Skip where this machine cannot run a program that is built with it."""
    source, program = folder / "probe.cpp", folder / "probe"
    source.write_text("int main() {}\n", encoding="utf-8")
    compiler = os.environ.get("CXX", "c++")
    if shutil.which(compiler) is None or shutil.which("cmake") is None:
        pytest.skip("the sanitizers need a C++ compiler and CMake")
    for command in (
        [compiler, f"-fsanitize={name}", str(source), "-o", str(program)],
        [str(program)],
    ):
        done = run(command, seconds=30)
        if done.returncode != 0:
            pytest.skip(f"no -fsanitize={name} here: {done.stderr.strip()[:300]}")


def build(sanitizer: str, program: str) -> Path:
    folder = ROOT / "build" / "sanitize" / sanitizer.replace(",", "-")
    for command in (
        ["cmake", "-S", str(SOURCE), "-B", str(folder), f"-DSANITIZE={sanitizer}"],
        ["cmake", "--build", str(folder), "--parallel", "2", "--target", program],
    ):
        done = run(command, seconds=240)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / program


@pytest.mark.timeout(300 + SECONDS)
@pytest.mark.parametrize(
    ("sanitizer", "program", "seed"),
    [
        pytest.param("address,undefined", "fuzz", 1, id="fuzz under ASan and UBSan"),
        pytest.param("address,undefined", "memory", 1, id="no memory under ASan and UBSan"),
        pytest.param("address,undefined", "threads", 1, id="threads under ASan and UBSan"),
        pytest.param("thread", "threads", 2, id="threads under TSan"),
        pytest.param("address,undefined", "tiles", 3, id="kernels under ASan and UBSan"),
        pytest.param("address,undefined", "checks", 4, id="wrong calls of kernels under ASan"),
    ],
)
def test_a_random_run_finds_nothing(
    sanitizer: str, program: str, seed: int, tmp_path: Path
) -> None:
    require_sanitizer(sanitizer, tmp_path)
    if program == "checks" and not linear_kernels(torch.bfloat16):
        pytest.skip("this processor has no kernels")
    if program == "tiles" and "avx512_bf16" not in linear_kernels(torch.bfloat16):
        pytest.skip("AMX's kernels need AVX512-BF16 besides their tiles, which are emulated")
    command = [str(build(sanitizer, program)), str(SECONDS), str(seed), str(tmp_path)]

    done = run(command, seconds=60 + 2 * SECONDS)

    assert done.returncode == 0, done.stderr[-6000:]
    assert done.stdout.strip()  # what was done, so that something was
    print(done.stdout)  # noqa: T201  # shown by `make test-sanitize`: how much was tried
