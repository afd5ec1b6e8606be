"""Every step is launched ahead, and a head that does not look back drafts where the target runs.

On V1, where every step waits, the head drafts from the CPU.
"""

from collections.abc import Iterator

import pytest

from tests.e2e.exactness.conftest import profile, speculation
from tests.e2e.exactness.heads import write_blind_head
from tests.e2e.exactness.prompts import make_prompts, make_prose
from tests.e2e.exactness.worker import RUNNER, SCHEDULING, Worker, starting_worker

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]

_DRAFTED, _ACCEPTED = "engine_spec_draft_tokens_total", "engine_spec_accepted_tokens_total"
_LAUNCHES = "engine_spec_launches_total"


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    folder = tmp_path_factory.mktemp("ahead")
    head = {"path": str(write_blind_head(folder / "head"))}
    with starting_worker(
        folder, profile(vllm={}, speculation=speculation(head=head, launch="ahead"))
    ) as started:
        started.wait_ready()
        yield started


def test_tokens_are_the_same_and_drafts_of_the_head_are_accepted_and_refused(
    worker: Worker,
) -> None:
    alone = {"vllm_xargs": {"specgate_mode": "head"}}
    bodies = [{"prompt": prompt, "max_tokens": 40} for prompt in make_prose(10, seed=5)]

    answers = worker.ask_all([body | alone for body in bodies], concurrency=5)

    assert answers == worker.plain().ask_all(bodies)
    assert frozenset[str]().union(*(answer.drafts.sources for answer in answers)) == {"head"}
    drafted = worker.wait_for(_DRAFTED, above=20, source="head")
    assert 10 < worker.metric(_ACCEPTED, source="head") < drafted


def test_tokens_are_the_same_with_the_index_beside_the_head(worker: Worker) -> None:
    bodies = [{"prompt": prompt, "max_tokens": 40} for prompt in make_prompts(12, seed=7)]

    answers = worker.ask_all(bodies, concurrency=6)

    assert answers == worker.plain().ask_all(bodies)
    assert frozenset[str]().union(*(answer.drafts.sources for answer in answers)) == {
        "suffix",
        "head",
    }


@pytest.mark.skipif(
    RUNNER == "v1" or SCHEDULING == "sync", reason="without async scheduling every step waits"
)
def test_nearly_all_steps_were_launched_ahead(worker: Worker) -> None:
    ahead = worker.wait_for(_LAUNCHES, above=50, launch="ahead")

    assert ahead > 5 * worker.metric(_LAUNCHES, launch="wait")
