"""Each of our rooms made to fail: the tokens stay the same, a counter rises, drafts come back."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.exactness.probe import ROOMS
from tests.e2e.exactness.prompts import make_prompts
from tests.e2e.exactness.worker import Worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

FALLBACKS = "engine_spec_fallbacks_total"


@pytest.mark.parametrize("every", [1, 5], ids=["always", "now and then"])
@pytest.mark.parametrize("room", ROOMS)
def test_a_failing_room_costs_drafts_and_nothing_else(
    room: str, every: int, plain: Worker, speculating: Worker
) -> None:
    bodies = [{"prompt": prompt} for prompt in make_prompts(6, seed=70)]
    before = speculating.metric(FALLBACKS, reason="InjectedError")

    with broken(speculating, room, every):
        answers = speculating.ask_all(bodies)
        speculating.wait_for(FALLBACKS, above=before, reason="InjectedError")

    assert answers == plain.ask_all(bodies)


def test_repeated_failure_pauses_drafting_and_a_later_step_tries_again(
    plain: Worker, speculating: Worker
) -> None:
    body = {"prompt": "one two three four five six " * 8, "max_tokens": 96}
    paused = speculating.metric("engine_spec_steps_total", verdict="paused")

    with broken(speculating, "propose", 1):
        answer = speculating.ask(body)
        speculating.wait_for("engine_spec_steps_total", above=paused, verdict="paused")
        assert speculating.metric("engine_spec_gate_open", source="suffix") == 0

    expected = plain.ask(body)
    assert answer == expected
    assert answer.drafts.drafted == 0
    # A pause of 64 steps, or of 128 if the step that tried was one of the request above.
    again = [speculating.ask(body) for _ in range(3)]
    assert again == [expected] * 3
    assert again[-1].drafts.accepted > 0
    speculating.wait_for("engine_spec_gate_open", above=0, source="suffix")


def test_requests_that_met_a_failure_are_forgotten(speculating: Worker) -> None:
    with broken(speculating, "extend", 7):
        speculating.ask_all([{"prompt": prompt} for prompt in make_prompts(6, seed=71)])
    speculating.wait_idle()
    # vLLM tells the model worker of a request's end with the next step.
    speculating.ask({"prompt": "the end", "max_tokens": 1})
    speculating.wait_idle()

    assert speculating.held() == {"drafter": 0, "index": 0}


@contextmanager
def broken(worker: Worker, room: str, every: int) -> Iterator[None]:
    worker.call("specgate_break", room, str(every))
    try:
        yield
    finally:
        worker.call("specgate_mend", room)
