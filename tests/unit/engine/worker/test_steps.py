import pytest

from engine.worker.steps import Backlog, Step, StepTimer, next_load, room_for_drafts


def step(*requests: str, head: float = 0.0) -> Step:
    return Step(requests, 5, 100, head)


class TestTimer:
    """Of whole steps."""

    def test_a_step_lasts_until_the_next_one_begins(self) -> None:
        timer = StepTimer()
        first = timer.begin(10.0, ())
        timer.end(step("a", "b", head=0.5))

        found = timer.begin(12.0, ["b"])

        assert first is None
        assert found == (step("a", "b", head=0.5), 1.5)

    def test_where_nobody_goes_on_the_engine_may_have_been_idle(self) -> None:
        timer = StepTimer()
        timer.begin(10.0, ())
        timer.end(step("a"))

        assert timer.begin(99.0, ["a", "x"]) is None

    def test_a_step_of_which_nothing_was_said_is_not_timed(self) -> None:
        timer = StepTimer()
        timer.begin(10.0, ())
        timer.end(step("a"))
        timer.begin(11.0, ())

        assert timer.begin(12.0, ()) is None


class TestRoom:
    """In the KV cache."""

    @pytest.mark.parametrize(
        ("free", "room"), [(12, None), (11, 112), (4, 0), (3, 0), (0, 0)], ids=str
    )
    def test_what_all_rows_could_draft_at_most_is_no_limit(
        self, free: int, room: int | None
    ) -> None:
        """Four rows, drafts of 32, blocks of 16: each may need three blocks."""
        assert room_for_drafts(free, 16, rows=4, most=32) == room

    def test_without_rows_there_is_room(self) -> None:
        assert room_for_drafts(0, 16, rows=0, most=32) is None


class TestLoad:
    """Of the next step."""

    def test_prompts_that_are_read_delay_and_fill_the_step(self) -> None:
        load = next_load([30, 50], 900, Backlog(1, 20, 64), budget_tokens=2048, rows=3)

        assert (load.sequences, load.prefill_tokens, load.context_tokens) == (3, 100, 900)
        assert (load.waiting, load.room_tokens) == (3, 64)

    def test_what_the_last_step_read_is_passed_on(self) -> None:
        load = next_load([], 0, Backlog(), budget_tokens=2048, rows=8, read_tokens=70)

        assert load.read_tokens == 70

    def test_no_more_is_read_than_a_step_may_have(self) -> None:
        load = next_load([5000], 0, Backlog(), budget_tokens=2048, rows=8)

        assert load.prefill_tokens == 2040

    def test_decoding_alone(self) -> None:
        load = next_load([], 700, Backlog(), budget_tokens=2048, rows=8)

        assert (load.prefill_tokens, load.waiting, load.room_tokens) == (0, 0, None)
