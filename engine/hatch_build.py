"""Compiles engine._core with CMake, beside the Python sources, before hatchling packs a wheel."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import nanobind
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CMakeBuildHook(BuildHookInterface):
    """Runs for wheels, editable ones too; a source distribution needs no compiler.

    `CMAKE_ARGS` adds options, `CMAKE_BUILD_PARALLEL_LEVEL` limits the jobs, as CMake documents.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and mark the wheel as one for this interpreter and platform.

        Raises:
            subprocess.CalledProcessError: CMake or the compiler failed; its output says why.
        """
        build = Path(self.root) / "build" / f"{sys.implementation.cache_tag}"
        options = [
            "-DCMAKE_BUILD_TYPE=Release",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-Dnanobind_ROOT={nanobind.cmake_dir()}",
        ]
        for command in (
            ["cmake", "-S", self.root, "-B", build, *options],
            ["cmake", "--build", build, "--parallel"],
            ["cmake", "--install", build, "--prefix", self.root],
        ):
            subprocess.run(command, check=True)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
