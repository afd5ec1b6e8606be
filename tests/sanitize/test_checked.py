"""The kernels' unit tests with a checked build of engine._core (CMake's SPECGATE_CHECKED).

It refuses what tests/sanitize/checks.cpp lists before it reads any memory; what the tests do is
right, so nothing may be refused.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "checked"

# Imports the module that was built, in place of the installed one, and runs the tests.
RUN = """
import importlib.util, sys
import pytest, torch
spec = importlib.util.spec_from_file_location("engine._core", sys.argv[1])
core = importlib.util.module_from_spec(spec)
sys.modules["engine._core"] = core
spec.loader.exec_module(core)
assert core.kernels.is_checked
table = torch.tensor([[7]], dtype=torch.int32)
cache = torch.zeros(7, 1, 64, 32)
queries = torch.zeros(1, 1, 32)
from engine.kernels import PagedAttention, StepRequests
one = torch.tensor([1], dtype=torch.int32)
step = StepRequests(torch.tensor([0, 1], dtype=torch.int32), one, table)
attention = PagedAttention(*cache.chunk(2, dim=2), heads=1, scale=1.0)
with pytest.raises(IndexError, match="block 7 is outside of the cache of 7"):
    attention(queries, step, queries.clone())
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[2:]]))
"""


def run(*command: str, seconds: float) -> str:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    return done.stdout


@pytest.mark.timeout(700)
def test_kernels_pass_their_tests_in_a_checked_build() -> None:
    if shutil.which("cmake") is None:
        pytest.skip("a checked build needs CMake and a C++ compiler")
    options = ("-DSPECGATE_CHECKED=ON", f"-DPython_EXECUTABLE={sys.executable}")
    nanobind = run(sys.executable, "-m", "nanobind", "--cmake_dir", seconds=60).strip()
    where = f"-Dnanobind_DIR={nanobind}"
    run("cmake", "-S", "engine", "-B", str(BUILD), where, *options, seconds=60)
    run("cmake", "--build", str(BUILD), "--parallel", "2", seconds=500)
    (module,) = BUILD.glob("_core*.so")

    tests = (
        "tests/unit/engine/kernels/test_attention.py",
        "tests/unit/engine/kernels/test_linear.py",
    )
    said = run(sys.executable, "-c", RUN, str(module), *tests, seconds=120)

    assert " passed" in said
