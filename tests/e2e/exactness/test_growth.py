"""Two thousand short requests leave nothing behind."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.exactness.worker import Worker
from tests.e2e.service import MODEL

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]

# The allocator fills up while batches have sizes that never came before. Measured over 8,400 such
# requests: 70 MiB by the 3,400th, then 15 MiB in 5,000; without speculation 11 MiB.
WARM_UP, REQUESTS, TOGETHER = 1600, 2000, 40
BOUND_BYTES = 64 << 20
# One object of every tenth request.
BOUND_OBJECTS = REQUESTS // 10


def test_neither_state_nor_memory_grows(speculating: Worker) -> None:
    # Two tokens of each prompt are its own, and what follows the first of them is drafted.
    prompts = [[1000 + n, 5000 + n, 260, 1000 + n, 5000 + n] for n in range(WARM_UP + REQUESTS)]
    drafted = speculating.metric("engine_spec_draft_tokens_total")
    send(speculating, prompts[:WARM_UP])
    model_worker = speculating.model_worker
    objects = speculating.objects()
    memory = model_worker.memory_info().rss

    send(speculating, prompts[WARM_UP:])

    speculating.wait_idle()
    assert speculating.held() == {"drafter": 0, "index": 0, "head": 0}
    assert speculating.objects() - objects < BOUND_OBJECTS
    assert model_worker.memory_info().rss - memory < BOUND_BYTES
    speculating.wait_for("engine_spec_draft_tokens_total", above=drafted + REQUESTS / 4)


def send(worker: Worker, prompts: list[list[int]]) -> None:
    """Complete the prompts, `TOGETHER` in a call, which makes a request of each."""
    groups = [prompts[at : at + TOGETHER] for at in range(0, len(prompts), TOGETHER)]

    def complete(group: list[list[int]]) -> int:
        body = {"model": MODEL, "prompt": group, "max_tokens": 3, "ignore_eos": True}
        return len(worker.post("/v1/completions", body)["choices"])

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(complete, groups)) == len(prompts)
