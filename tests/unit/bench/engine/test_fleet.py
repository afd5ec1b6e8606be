from pathlib import Path

import pytest

from bench.engine.fleet import check_memory
from bench.engine.worker import WorkerError
from engine.models import ResolvedModel

GIB = 1 << 30


def test_more_workers_than_fit_are_refused_before_any_starts(tmp_path: Path) -> None:
    model = ResolvedModel(str(tmp_path), "m", is_local=True)

    check_memory(4, model, available=12 * GIB)
    with pytest.raises(WorkerError, match=r"5 workers take 13\.0 GiB of memory and 12\.0 are free"):
        check_memory(5, model, available=12 * GIB)


def test_weights_count_for_every_worker(tmp_path: Path) -> None:
    with (tmp_path / "model.safetensors").open("wb") as weights:
        weights.truncate(2 * GIB)
    model = ResolvedModel(str(tmp_path), "m", is_local=True)

    with pytest.raises(WorkerError, match=r"18\.4 GiB"):
        check_memory(4, model, available=12 * GIB)
