"""Finds and runs the programs of the tests; `make` installs them beside the interpreter."""

import os
import shutil
import subprocess
import sys
from pathlib import Path


def find_tool(name: str) -> str:
    """Return the path of a program: beside the interpreter, else on PATH.

    Raises:
        FileNotFoundError: It is not installed.
    """
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    found = shutil.which(name, path=path)
    if found is None:
        raise FileNotFoundError(f"{name} is missing: make install-tests installs it")
    return found


def run_python(code: str) -> "subprocess.CompletedProcess[str]":
    """Run code in an interpreter of its own, for at most 30 s."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
