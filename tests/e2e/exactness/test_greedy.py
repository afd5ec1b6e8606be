"""Greedy text is the same token by token, though much is drafted, and some of it refused."""

from collections.abc import Iterator

import pytest

from tests.e2e.exactness.conftest import profile
from tests.e2e.exactness.prompts import make_long_prompt, make_prompts, make_prose
from tests.e2e.exactness.worker import Worker, starting_worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

PROMPTS = make_prompts(12, seed=1)


def test_tokens_are_the_same_and_drafts_are_accepted_and_refused(
    plain: Worker, speculating: Worker
) -> None:
    bodies = [{"prompt": prompt, "max_tokens": 40} for prompt in PROMPTS]

    expected = plain.ask_all(bodies, concurrency=12)
    answers = speculating.ask_all(bodies, concurrency=12)

    assert answers == expected
    assert all(answer.drafts.drafted == 0 for answer in expected)
    accepted = sum(answer.drafts.accepted for answer in answers)
    drafted = sum(answer.drafts.drafted for answer in answers)
    assert accepted > 10 * len(PROMPTS)
    assert drafted - accepted > 2 * len(PROMPTS)


def test_both_sources_draft_and_share_drafts(speculating: Worker) -> None:
    prompts = [*PROMPTS[:3], *make_prose(3, seed=6)]  # what was seen before, and what was not
    answers = speculating.ask_all([{"prompt": prompt} for prompt in prompts])

    named = frozenset[str]().union(*(answer.drafts.sources for answer in answers))
    assert named == {"suffix", "head"}


def test_tokens_are_the_same_with_the_head_alone(plain: Worker, speculating: Worker) -> None:
    bodies = [{"prompt": prompt, "max_tokens": 40} for prompt in make_prose(10, seed=5)]
    alone = {"vllm_xargs": {"specgate_mode": "head"}}

    answers = speculating.ask_all([body | alone for body in bodies], concurrency=8)

    assert answers == plain.ask_all(bodies)
    assert frozenset[str]().union(*(answer.drafts.sources for answer in answers)) == {"head"}
    accepted = sum(answer.drafts.accepted for answer in answers)
    drafted = sum(answer.drafts.drafted for answer in answers)
    assert accepted > 4 * len(bodies)
    assert drafted - accepted > 4 * len(bodies)


def test_tokens_are_the_same_alone_in_the_batch(plain: Worker, speculating: Worker) -> None:
    bodies = [{"prompt": prompt} for prompt in make_prompts(6, seed=2)]

    answers = speculating.ask_all(bodies, concurrency=1)

    assert answers == plain.ask_all(bodies)
    assert sum(answer.drafts.accepted for answer in answers) > 0


def test_chat_is_the_same(plain: Worker, speculating: Worker) -> None:
    bodies = [
        {"messages": [{"role": "user", "content": f"Repeat this twice:\n{prompt}"}]}
        for prompt in make_prompts(6, seed=3)
    ]

    answers = speculating.ask_all(bodies)

    assert answers == plain.ask_all(bodies)
    assert sum(answer.drafts.accepted for answer in answers) > 0


def test_tokens_are_the_same_behind_a_cached_prefix(plain: Worker, speculating: Worker) -> None:
    prefix = make_long_prompt(seed=4, records=40)
    bodies = [{"prompt": prefix + prompt} for prompt in make_prompts(6, seed=4)]
    speculating.ask({"prompt": prefix, "max_tokens": 2})

    first = speculating.ask_all(bodies)
    again = speculating.ask_all(bodies)

    expected = plain.ask_all(bodies)
    assert first == again == expected
    assert all(answer.cached_tokens > 256 for answer in (*first, *again))
    assert all(answer.drafts.accepted > 0 for answer in again)


@pytest.fixture
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
