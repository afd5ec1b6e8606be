"""Each of our rooms made to fail: the tokens stay the same, a counter rises, drafts come back."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.e2e.exactness.probe import rooms_of
from tests.e2e.exactness.prompts import make_prompts, make_prose
from tests.e2e.exactness.worker import RUNNER, SCHEDULING, Worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

FALLBACKS, STEPS = "engine_spec_fallbacks_total", "engine_spec_steps_total"
ROOMS = rooms_of("v2-ahead" if SCHEDULING == "ahead" else RUNNER)
# One call in so many fails.
SELDOM = {
    "start": 43,
    "finish": 11,
    "price": 13,
    "head": 17,
    "head ahead": 7,
    "memory": 29,
    "forgetting": 7,
    "texts": 23,
    "verification": 19,
}
LOOP = "one two three four five six " * 8


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_a_room_that_always_fails_costs_drafts_and_nothing_else(
    room: str, plain: Worker, speculating: Worker
) -> None:
    # New ones for each room: what was answered before needs neither head nor grafts.
    seed = 700 + ROOMS.index(room)
    prompts = [*make_prompts(4, seed=seed), *make_prose(4, seed=seed)]
    bodies = [{"prompt": prompt} for prompt in prompts]
    before = speculating.metric(FALLBACKS, reason="InjectedError")

    with broken(speculating, room):
        answers = speculating.ask_all(bodies)
        speculating.wait_for(FALLBACKS, above=before, reason="InjectedError")

    assert answers == plain.ask_all(bodies)
    until_drafts(speculating)


def test_rooms_that_fail_now_and_then_cost_drafts_and_nothing_else(
    plain: Worker, speculating: Worker
) -> None:
    bodies = [{"prompt": prompt, "max_tokens": 40} for prompt in make_prompts(10, seed=71)]
    before = speculating.metric(FALLBACKS, reason="InjectedError")

    with ExitStack() as stack:
        for room in ROOMS:
            stack.enter_context(broken(speculating, room, every=SELDOM[room]))
        answers = speculating.ask_all(bodies)
        speculating.wait_for(FALLBACKS, above=before + 4, reason="InjectedError")

    assert answers == plain.ask_all(bodies)
    assert sum(answer.drafts.accepted for answer in answers) > 0
    until_drafts(speculating)


def test_repeated_failure_pauses_drafting_where_a_person_can_see_it(
    plain: Worker, speculating: Worker
) -> None:
    body = {"prompt": LOOP, "max_tokens": 40}
    paused = speculating.metric(STEPS, verdict="paused")

    with broken(speculating, "price"):
        answer = speculating.ask(body)
        speculating.wait_for(STEPS, above=paused + 20, verdict="paused")
        # Published by the same round as the steps, a little after them.
        speculating.wait_for("engine_spec_gate_open", below=1, source="suffix")

    assert answer == plain.ask(body)
    assert answer.drafts.drafted == 0
    until_drafts(speculating)
    speculating.wait_for("engine_spec_gate_open", above=0, source="suffix")


def test_requests_that_met_a_failure_are_forgotten(speculating: Worker) -> None:
    with broken(speculating, "price", every=7):
        speculating.ask_all([{"prompt": prompt} for prompt in make_prompts(6, seed=72)])
    speculating.wait_idle()

    assert speculating.held() == {"drafter": 0, "index": 0, "head": 0}


def until_drafts(worker: Worker) -> None:
    """Decode until the breaker has let a step through again: after 64 steps, or 128, or 256."""
    for _ in range(4):
        if worker.ask({"prompt": LOOP, "max_tokens": 128, "ignore_eos": True}).drafts.drafted:
            return
    raise AssertionError("no drafts after 500 steps")


@contextmanager
def broken(worker: Worker, room: str, *, every: int = 1) -> Iterator[None]:
    worker.call("specgate_break", room, str(every))
    try:
        yield
    finally:
        worker.call("specgate_mend", room)
