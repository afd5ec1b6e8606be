"""Builds the wheels, and environments to install them into."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, **environment: str) -> str:
    """What the command prints; it must end with status 0."""
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def build_wheel(source: Path, folder: Path) -> Path:
    """Build the wheel of a source folder; what the last build compiled is not compiled again."""
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation")
    run(*build, "--outdir", folder, source, PATH=tools)
    (built,) = folder.glob("*.whl")
    return built
