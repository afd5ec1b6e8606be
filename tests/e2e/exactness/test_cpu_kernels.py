"""`engine.cpu_kernels`: whose kernels compute a real model, and what the worker says of it."""

from typing import Any

import pytest

from tests.e2e.exactness.conftest import profile, speculation
from tests.e2e.exactness.probe import EXTENSION
from tests.e2e.exactness.prompts import make_prompts
from tests.e2e.exactness.worker import Worker, starting_worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]


def exactness(worker: Worker) -> Any:
    (engine,) = worker.client.get("/speculation").json()["engines"]
    return engine["exactness"]


def test_our_kernels_compute_every_layer_by_default(speculating: Worker) -> None:
    kernels = speculating.call("specgate_kernels")

    assert kernels["attention"] == 30
    # Four a layer, the output layer, and the embedding, whose weight the output layer shares.
    assert kernels["linear"] == 4 * 30 + 2
    assert exactness(speculating)["batch_invariant"]


def test_off_means_that_none_of_them_computes(tmp_path_factory: pytest.TempPathFactory) -> None:
    section = profile(vllm={"worker_extension_cls": EXTENSION}, speculation=speculation())
    section["cpu_kernels"] = False
    bodies = [{"prompt": prompt} for prompt in make_prompts(4, seed=96)]

    with starting_worker(tmp_path_factory.mktemp("off"), section) as worker:
        worker.wait_ready()
        answers = worker.ask_all(bodies)
        kernels, stated = worker.call("specgate_kernels"), exactness(worker)
        log = worker.log.read_text(encoding="utf-8")

    assert kernels == {"linear": 0, "attention": 0}
    assert (stated["batch_invariant"], stated["reason"], stated["kernel"]) == (
        False, "setting", "vllm",
    )  # fmt: skip
    assert "results are not batch-invariant: engine.cpu_kernels is off" in log
    assert sum(answer.drafts.accepted for answer in answers) > 0
