"""With the default profile, results are batch-invariant, and drafts change no token.

In bfloat16 near-ties are decided by the last bit, so this holds only where each sum has one order.
The worker is asked past the gateway, as only it returns token ids.
"""

from collections.abc import Iterator

import pytest

from tests.e2e.exactness.prompts import make_long_prompt, make_prompts, make_prose
from tests.e2e.exactness.worker import Worker
from tests.e2e.service import Service

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]


@pytest.fixture
def worker(service: Service) -> Iterator[Worker]:
    service.wait_ready()
    with service.worker_client(seconds=120) as client:
        yield Worker(service.worker, client, service.log)


def test_the_worker_says_that_its_results_are_batch_invariant(worker: Worker) -> None:
    (engine,) = worker.client.get("/speculation").json()["engines"]

    assert engine["exactness"]["batch_invariant"], engine["exactness"]["detail"]
    assert worker.metric("engine_batch_invariant") == 1


def test_drafts_and_neighbours_change_no_token(worker: Worker) -> None:
    prompts = [*make_prompts(6, seed=21), *make_prose(2, seed=22)]
    prompts += [make_long_prompt(seed=23, records=40) + prompt for prompt in prompts[:3]]
    bodies = [{"prompt": prompt, "max_tokens": 40} for prompt in prompts]
    plain = worker.plain()

    expected = plain.ask_all(bodies, concurrency=1)
    crowded = plain.ask_all(bodies, concurrency=12)
    alone = worker.ask_all(bodies, concurrency=1)
    drafted = worker.ask_all(bodies, concurrency=12)

    assert crowded == expected
    assert alone == expected
    assert drafted == expected
    assert all(answer.drafts.drafted == 0 for answer in [*expected, *crowded])
    for answers in (alone, drafted):
        accepted = sum(answer.drafts.accepted for answer in answers)
        assert accepted > 8 * len(prompts)
        assert sum(answer.drafts.drafted for answer in answers) > accepted
