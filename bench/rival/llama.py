"""llama-server: built once from the source package of llama-cpp-python, and how to start it."""

import os
import sys
import tarfile
import tempfile
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from bench.peers import PEERS_DIR, InstallError
from engine.processor import processor_features
from loadtest.processes import Command, RunError, run_to_end
from loadtest.progress import say

PACKAGE = "llama-cpp-python"
VERSION = "0.3.36"
DRAFTS: Mapping[str, Sequence[str]] = {
    "llama-server": (),
    "llama-server ngram-mod": ("--spec-type", "ngram-mod"),
    "llama-server ngram-simple": ("--spec-type", "ngram-simple"),
}
"""Options by name: without drafts, and with two kinds of n-gram drafts."""

# CMake's options by the feature's name in /proc/cpuinfo. Named one by one because GCC 12 builds an
# AMX path that dies of SIGILL, which GGML_NATIVE would choose.
_INSTRUCTIONS = {
    "avx": "GGML_AVX",
    "avx2": "GGML_AVX2",
    "avx512_bf16": "GGML_AVX512_BF16",
    "avx512_vnni": "GGML_AVX512_VNNI",
    "avx512f": "GGML_AVX512",
    "avx512vbmi": "GGML_AVX512_VBMI",
    "avx_vnni": "GGML_AVX_VNNI",
    "bmi2": "GGML_BMI2",
    "f16c": "GGML_F16C",
    "fma": "GGML_FMA",
}
_BUILD_SECONDS = 3600.0
_FETCH_SECONDS = 600.0
_START_SECONDS = 300.0


def build_options(features: Collection[str]) -> Sequence[str]:
    """Return CMake's options for a processor with these features."""
    off = ("LLAMA_CURL", "LLAMA_OPENSSL", "LLAMA_BUILD_UI", "BUILD_SHARED_LIBS", "GGML_NATIVE")
    return [
        "-DCMAKE_BUILD_TYPE=Release",
        *(f"-D{name}=OFF" for name in off),
        *(
            f"-D{option}={'ON' if feature in features else 'OFF'}"
            for feature, option in _INSTRUCTIONS.items()
        ),
    ]


async def build_server() -> Path:
    """Build llama-server for this processor, once; later calls find it.

    Returns:
        The program.

    Raises:
        InstallError: The package could not be fetched or built.
    """
    options = build_options(processor_features())
    kind = sha256(" ".join(options).encode()).hexdigest()[:8]
    folder = (PEERS_DIR / f"llama.cpp-{VERSION}-{kind}").resolve()
    program = folder / "bin" / "llama-server"
    if program.exists():
        return program
    say(f"building llama-server in {folder}: some 8 minutes on two cores")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            source = await _fetch(Path(scratch))
            arguments = ["-S", str(source), "-B", str(folder), *options]
            await run_to_end("cmake", *arguments, seconds=_FETCH_SECONDS)
            jobs = str(os.cpu_count() or 1)
            arguments = ["--build", str(folder), "--target", "llama-server", "-j", jobs]
            await run_to_end("cmake", *arguments, seconds=_BUILD_SECONDS)
    except (RunError, OSError, tarfile.TarError) as error:
        raise InstallError(f"llama-server: {error}") from error
    return program


def server_command(
    program: Path, name: str, weights: Path, *, port: int, threads: int, context: int
) -> Command:
    """Return how to start it.

    Args:
        name: One of `DRAFTS`.
        weights: A GGUF file.
        port: On 127.0.0.1.
        threads: For decoding, and for prompts.
        context: Longest prompt with its answer, in tokens.
    """
    address = ["--host", "127.0.0.1", "--port", str(port)]
    sizes = ["--ctx-size", str(context), "--parallel", "1"]
    counts = ["--threads", str(threads), "--threads-batch", str(threads)]
    return Command(
        name=name,
        arguments=[
            *(str(program), "--model", str(weights), *address, *sizes, *counts),
            *("--jinja", "--offline", *DRAFTS[name]),
        ],
        ready_url=f"http://127.0.0.1:{port}/health",
        start_seconds=_START_SECONDS,
        environment={},
    )


async def _fetch(folder: Path) -> Path:
    options = ("--quiet", "--no-deps", "--no-binary", PACKAGE, "--dest", str(folder))
    await run_to_end(
        *(sys.executable, "-m", "pip", "download", *options, f"{PACKAGE}=={VERSION}"),
        seconds=_FETCH_SECONDS,
    )
    return _unpack(folder)


def _unpack(folder: Path) -> Path:
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as package:
        package.extractall(folder, filter="data")
    (source,) = folder.glob("*/vendor/llama.cpp")
    return source
