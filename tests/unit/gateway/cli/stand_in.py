"""A stand-in for our own interpreter, where a command would start the engine with it."""

import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Become = Callable[[str], None]


def interpreter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Become:
    """Returns a function that makes `sys.executable` a shell script."""

    def become(script: str) -> None:
        path = folder / "python"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(sys, "executable", str(path))

    return become
