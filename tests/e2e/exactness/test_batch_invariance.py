"""Tokens depend neither on drafts nor on the other requests of the batch."""

from collections.abc import Iterator

import pytest

from tests.e2e.exactness.conftest import profile
from tests.e2e.exactness.prompts import make_long_prompt, make_prompts, make_prose
from tests.e2e.exactness.worker import Worker, starting_worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]


def check_batch_invariance(worker: Worker) -> None:
    """Ask alone and among eleven others, with and without drafts."""
    prompts = [*make_prompts(12, seed=21), *make_prose(6, seed=22)]
    prompts += [make_long_prompt(seed=23, records=40) + prompt for prompt in prompts[:6]]
    bodies = [{"prompt": prompt, "max_tokens": 48} for prompt in prompts]
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
        refused = sum(answer.drafts.drafted for answer in answers) - accepted
        assert accepted > 8 * len(prompts)
        assert refused > 2 * len(prompts)


def test_drafts_and_neighbours_change_no_token(speculating: Worker) -> None:
    check_batch_invariance(speculating)


@pytest.fixture(scope="module")
def without_drafter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker that has no sources at all."""
    section = profile(vllm={}, speculation={"sources": []})
    with starting_worker(tmp_path_factory.mktemp("plain"), section) as worker:
        worker.wait_ready()
        yield worker


@pytest.mark.slow
def test_mode_off_is_what_a_worker_without_a_drafter_answers(
    without_drafter: Worker, plain: Worker
) -> None:
    sampled = {"temperature": 0.9, "seed": 5}
    bodies = [{"prompt": prompt, "max_tokens": 40} for prompt in make_prompts(12, seed=24)]
    bodies += [body | sampled for body in bodies]

    assert plain.ask_all(bodies) == without_drafter.ask_all(bodies)
