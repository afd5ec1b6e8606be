"""Two thousand short requests leave nothing behind."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.exactness.prompts import make_prompts
from tests.e2e.exactness.worker import Worker
from tests.e2e.service import MODEL

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

WARM_UP, REQUESTS, TOGETHER = 600, 2000, 20
# A request that stayed would hold its prompt and its drafts' accounts: 15 kB each and 20 MB in all.
BOUND_BYTES = 16 << 20


def test_neither_state_nor_memory_grows(speculating: Worker) -> None:
    """The first requests touch every block of the KV cache for the first time; then it is full."""
    prompts = make_prompts(WARM_UP + REQUESTS, seed=80)
    send(speculating, prompts[:WARM_UP])
    family = [speculating.model_worker, *speculating.model_worker.parents()[:1]]
    before = [process.memory_info().rss for process in family]

    send(speculating, prompts[WARM_UP:])

    speculating.wait_idle()
    assert speculating.held() == {"drafter": 0, "index": 0}
    grown = [process.memory_info().rss - old for process, old in zip(family, before, strict=True)]
    assert all(growth < BOUND_BYTES for growth in grown), grown


def send(worker: Worker, prompts: list[str]) -> None:
    """Complete the prompts, `TOGETHER` in a call, which makes a request of each."""
    groups = [prompts[at : at + TOGETHER] for at in range(0, len(prompts), TOGETHER)]

    def complete(group: list[str]) -> int:
        body = {"model": MODEL, "prompt": group, "max_tokens": 3, "ignore_eos": True}
        return len(worker.post("/v1/completions", body)["choices"])

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(complete, groups)) == len(prompts)
