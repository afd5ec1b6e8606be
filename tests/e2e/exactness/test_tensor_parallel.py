"""A model over several ranks: one of them drafts, and all of them verify the same."""

import pytest

from tests.e2e.exactness.conftest import profile, speculation
from tests.e2e.exactness.probe import EXTENSION
from tests.e2e.exactness.prompts import make_prompts
from tests.e2e.exactness.test_failures import broken, until_drafts
from tests.e2e.exactness.worker import Worker, starting_worker

RANKS = 3
"""SmolLM2-135M has 9 heads and 3 KV heads: 3 is the smallest number that divides both."""

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]


def test_tokens_are_the_same_over_several_ranks(
    plain: Worker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ranks = {
        "tensor_parallel_size": RANKS,
        "distributed_executor_backend": "mp",
        "worker_extension_cls": EXTENSION,
    }
    section = profile(vllm=ranks, speculation=speculation())
    section["environment"]["OMP_NUM_THREADS"] = "1"
    bodies = [{"prompt": prompt} for prompt in make_prompts(12, seed=95)]

    with starting_worker(tmp_path_factory.mktemp("ranks"), section) as worker:
        worker.wait_ready()
        answers = worker.ask_all(bodies)
        # A fault of the rank that drafts leaves the step plain on all of them.
        with broken(worker, "price"):
            plainly = worker.ask_all(bodies)
        until_drafts(worker)

    expected = plain.ask_all(bodies)
    assert answers == expected
    assert sum(answer.drafts.accepted for answer in answers) > 0
    assert plainly == expected
    assert sum(answer.drafts.drafted for answer in plainly) == 0
