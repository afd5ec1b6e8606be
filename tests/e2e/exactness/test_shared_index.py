"""A worker with an empty disk drafts as well as one that has served the same tenant before."""

from pathlib import Path
from typing import Any

import pytest

from engine.config import load_settings
from engine.models import CATALOGUE, folder_of
from tests.e2e.exactness.conftest import profile, speculation
from tests.e2e.exactness.prompts import make_prose
from tests.e2e.exactness.worker import Worker, starting_worker
from tests.e2e.service import MODEL

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

_REQUESTS = 20
_LEAST_REGAINED = 0.9
_BODIES = [{"prompt": prompt} for prompt in make_prose(_REQUESTS, seed=490)]


def settings(folder: Path, name: str) -> dict[str, Any]:
    suffix = {"capacity_mb": 64, "share": f"file://{folder}/share"}
    section = profile(vllm={}, speculation=speculation(sources=["suffix"], suffix=suffix))
    model = folder_of(CATALOGUE[MODEL], cache_dir=load_settings(None).cache_dir)
    disk = str(folder / name)
    return section | {"model": str(model), "served_model_name": MODEL, "cache_dir": disk}


def accepted(worker: Worker, tenant: str) -> float:
    """Ask everything, one after another; the share of tokens that were drafted and accepted."""
    xargs = {"specgate_tenant": tenant}
    answers = [worker.ask({**body, "vllm_xargs": xargs}) for body in _BODIES]
    return sum(a.drafts.accepted for a in answers) / sum(a.completion_tokens for a in answers)


def test_a_new_worker_accepts_what_a_warm_one_does(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    with starting_worker(tmp_path / "first", settings(tmp_path, "first")) as worker:
        worker.wait_ready()
        cold, warm = accepted(worker, "acme"), accepted(worker, "acme")
    assert warm > cold + 0.2  # else there is nothing to lose

    (tmp_path / "second").mkdir()
    with starting_worker(tmp_path / "second", settings(tmp_path, "second")) as worker:
        worker.wait_ready()
        worker.wait_for("engine_suffix_tokens", above=0)
        new, other = accepted(worker, "acme"), accepted(worker, "umbrella")

    assert new - cold >= _LEAST_REGAINED * (warm - cold), (cold, new, warm)
    assert other == pytest.approx(cold, abs=0.05)  # a tenant's text is its own
