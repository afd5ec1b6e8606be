from dataclasses import replace

import pytest

from bench.routing.traffic import Request
from bench.routing.worker import Cache, Job, Model, Worker

MODEL = Model()
REQUEST = Request(
    at=0.0,
    tenant=0,
    conversation=1,
    turn=0,
    system=-1,
    system_tokens=1000,
    prompt_tokens=2000,
    answer_tokens=101,
    gain=0.0,
    bytes_per_token=4.0,
)


def run(worker: Worker, *requests: Request, until: float = 1e6) -> list[Job]:
    jobs = [Job(request, worker.now) for request in requests]
    for job in jobs:
        worker.add(job)
    worker.advance(until)
    return jobs


def test_a_request_alone_takes_its_reading_and_its_steps() -> None:
    (job,) = run(Worker(MODEL), REQUEST)
    reading = 2 * (MODEL.step_seconds + MODEL.sequence_seconds) + 2000 * MODEL.prompt_token_seconds

    assert job.first == pytest.approx(reading)
    assert job.ended == pytest.approx(reading + 100 * (MODEL.step_seconds + MODEL.sequence_seconds))


def test_a_slow_worker_takes_as_many_times_longer() -> None:
    (job,) = run(Worker(MODEL), REQUEST)
    (slow,) = run(Worker(MODEL, slowness=3.0), REQUEST)

    assert job.ended is not None
    assert slow.ended == pytest.approx(3 * job.ended)


def test_drafts_shorten_an_answer_more_the_more_the_index_has_seen() -> None:
    worker, drafted = Worker(MODEL), replace(REQUEST, gain=2.0)
    (first,) = run(worker, drafted)
    for _ in range(200):
        run(worker, drafted, until=worker.now + 100)
    (last,) = run(worker, drafted, until=worker.now + 100)

    assert first.steps == pytest.approx(1 + 100 / 1.6)
    assert last.steps == pytest.approx(1 + 100 / 3, rel=0.15)


def test_how_often_time_is_looked_at_changes_nothing() -> None:
    requests = [replace(REQUEST, conversation=at, answer_tokens=50 + at) for at in range(20)]
    whole = run(Worker(MODEL), *requests)
    worker = Worker(MODEL)
    jobs = [Job(request, 0.0) for request in requests]
    for job in jobs:
        worker.add(job)
    for tick in range(4000):
        worker.advance(tick * 0.013)

    assert [job.ended for job in jobs] == pytest.approx([job.ended for job in whole])


def test_more_requests_than_run_at_a_time_wait() -> None:
    small = replace(MODEL, most_running=2)
    jobs = run(Worker(small), *(replace(REQUEST, conversation=at) for at in range(3)))

    assert jobs[2].first is not None
    assert jobs[0].ended is not None
    assert jobs[2].first > jobs[0].ended


def test_a_worker_that_is_reset_loses_requests_and_cache() -> None:
    worker = Worker(MODEL)
    run(worker, REQUEST)
    job = Job(replace(REQUEST, turn=1), worker.now)
    worker.add(job)

    assert worker.reset() == [job]
    assert worker.present == 0
    assert worker.cache.match(REQUEST) == 0


def test_the_cache_evicts_the_end_of_what_was_not_used_for_longest() -> None:
    cache = Cache(3000)
    cache.put(REQUEST, 2000)
    cache.put(replace(REQUEST, conversation=2), 2000)
    cache.put(replace(REQUEST, conversation=3), 1500)

    assert cache.match(REQUEST) == 1500
    assert cache.match(replace(REQUEST, conversation=2)) == 1999


def test_a_cached_prompt_is_not_read_again() -> None:
    worker = Worker(MODEL)
    run(worker, REQUEST)
    (again,) = run(worker, replace(REQUEST, turn=1, prompt_tokens=2500), until=2e6)

    assert again.cached_tokens == 2101


def test_conversations_share_their_opening() -> None:
    worker = Worker(MODEL)
    run(worker, REQUEST)
    (other,) = run(worker, replace(REQUEST, conversation=2), until=2e6)

    assert other.cached_tokens == 1000
