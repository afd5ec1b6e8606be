"""How a worker ends: a stop keeps what the index has learnt, a crash leaves nothing behind."""

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.exactness.conftest import model_folder, profile, speculation
from tests.e2e.exactness.probe import EXTENSION
from tests.e2e.exactness.prompts import make_prose
from tests.e2e.exactness.worker import starting_worker
from tests.e2e.service import MODEL

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]


def test_a_stopped_worker_starts_warm_and_a_crashed_one_ends(tmp_path: Path) -> None:
    prompt, other = make_prose(2, seed=80)

    with starting_worker(tmp_path, warm(tmp_path)) as worker:
        worker.wait_ready()
        cold = worker.ask({"prompt": prompt})
        worker.stop(signal.SIGINT)  # Ctrl-C in a terminal

    with starting_worker(tmp_path, warm(tmp_path)) as worker:
        worker.wait_ready()
        again = worker.ask({"prompt": prompt})
        worker.ask({"prompt": other})
        assert "the suffix index starts with" in worker.log.read_text(encoding="utf-8")
        assert again == cold
        assert again.drafts.accepted > max(15, cold.drafts.accepted)
        worker.stop(signal.SIGTERM)  # the gateway's supervisor

    with starting_worker(tmp_path, warm(tmp_path)) as worker:
        worker.wait_ready()
        assert worker.ask({"prompt": other}).drafts.accepted > 15
        worker.call("specgate_crash")
        with worker.ending():
            response = worker.client.post("/v1/completions", json={"model": MODEL, "prompt": "Hi"})
        assert response.status_code == 500


def warm(folder: Path) -> dict[str, Any]:
    """A profile whose index is kept in `folder`."""
    section = profile(
        vllm={"worker_extension_cls": EXTENSION},
        speculation=speculation(suffix={"capacity_mb": 64, "warm_start": True}),
    )
    names = {"model": model_folder(), "served_model_name": MODEL, "cache_dir": str(folder)}
    return section | names
