"""Fetch the Python sources of vLLM's releases, for tests/unit/scripts.

usage: python -m scripts.fetch_vllm [VERSION...]

By default all versions in engine/worker/versions.py. pip downloads a wheel of some 350 MB; only its
Python files are kept, 55 MB. What is there is not fetched again.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from engine.worker.versions import TESTED_VLLM_VERSIONS

CACHE = Path("~/.cache/specgate/vllm-sources").expanduser()
"""A folder for each version, with the package `vllm` in it."""


def fetch(version: str) -> None:
    """Put the sources of a version into the cache.

    Raises:
        subprocess.CalledProcessError: pip found no such wheel, or no index; its output says why.
    """
    folder = CACHE / version
    if folder.is_dir():
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
        command = [*pip, "--no-deps", "--dest", work, f"vllm=={version}"]
        subprocess.run(command, check=True)  # noqa: S603  # pip, with a version
        (wheel,) = Path(work).glob("*.whl")
        made = Path(work) / "sources"
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.startswith("vllm/") and name.endswith(".py"):
                    archive.extract(name, made)
        shutil.move(made, folder)


def main() -> int:
    """Fetch the versions that are named."""
    for version in sys.argv[1:] or TESTED_VLLM_VERSIONS:
        fetch(version)
        sys.stdout.write(f"vLLM {version}: {CACHE / version}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
