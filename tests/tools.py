"""Finds the programs that tests run; `make` installs them beside the interpreter."""

import os
import shutil
import sys
from pathlib import Path


def find_tool(name: str) -> str:
    """Return the path of a program: beside the interpreter, else on PATH.

    Raises:
        FileNotFoundError: It is in neither place.
    """
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    found = shutil.which(name, path=path)
    if found is None:
        raise FileNotFoundError(f"{name} is missing: make install-tests installs it")
    return found
