import pytest

from engine.worker.step import StepTimer, TimedStep


def step(*requests: str, head: float = 0.0) -> Step:
    return Step(requests, 5, 100, head)


class TestTimer:
    def test_a_step_lasts_until_the_next_one_begins(self) -> None:
        timer = StepTimer()
        first = timer.begin(10.0, ())
        timer.end(step("a", "b", head=0.5))

        found = timer.begin(12.0, ["b"])

        assert first is None
        assert found == (step("a", "b", head=0.5), 1.5)

    def test_a_step_is_not_timed_if_none_of_its_requests_continues(self) -> None:
        timer = StepTimer()
        timer.begin(10.0, ())
        timer.end(step("a"))

        assert timer.begin(99.0, ["a", "x"]) is None

    def test_a_step_without_an_end_is_not_timed(self) -> None:
        timer = StepTimer()
        timer.begin(10.0, ())
        timer.end(step("a"))
        timer.begin(11.0, ())

        assert timer.begin(12.0, ()) is None


@pytest.mark.parametrize(
    ("free", "sequences", "room"),
    [(12, 4, None), (11, 4, 112), (4, 4, 0), (3, 4, 0), (0, 0, None)],
)
def test_room_for_drafts(free: int, sequences: int, room: int | None) -> None:
    """Drafts of 32 tokens in blocks of 16: each sequence may need three blocks."""
    assert room_for_drafts(free, 16, sequences=sequences, most=32) == room


class TestLoad:
    def test_unread_prompts_fill_the_step(self) -> None:
        load = next_load(
            [30, 50], 900, Backlog(1, 20, 64), budget_tokens=2048, sequences=3, read_tokens=70
        )

        assert (load.sequences, load.prefill_tokens, load.context_tokens) == (3, 100, 900)
        assert (load.waiting, load.room_tokens, load.read_tokens) == (3, 64, 70)

    def test_prompts_are_limited_by_the_budget(self) -> None:
        load = next_load([5000], 0, Backlog(), budget_tokens=2048, sequences=8)

        assert load.prefill_tokens == 2040
