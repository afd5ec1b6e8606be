import pytest
import torch

from engine.heads.view import View
from engine.worker.head import HeadRun, StepStates


def states(rows: int) -> torch.Tensor:
    """Row n is filled with n."""
    return torch.arange(rows, dtype=torch.float32)[:, None].expand(rows, 4)


class Echo:
    """A head that proposes what it was given: the newest token, then the number of its state."""

    def guess(
        self, states: torch.Tensor, rows: list[int], tokens: list[int], n: int, _view: View | None
    ) -> list[tuple[list[int], list[float]]]:
        numbers = states[rows, 0].long().tolist()
        drafts = [[token, number][:n] for token, number in zip(tokens, numbers, strict=True)]
        return [(draft, [0.5] * len(draft)) for draft in drafts]


@pytest.mark.parametrize(
    ("drafted", "sampled", "rows", "expected"),
    [
        (None, [[7], [8], [9]], [0, 2], [0, 2]),
        ([0, 0, 0], [[7], [8], [9]], [1], [1]),
        ([2, 0, 3], [[7, 7], [8], [9, 9, 9, 9]], [0, 1, 2], [1, 3, 7]),
        ([2, 0, 3], [[7], [], [9]], [0, 2], [0, 4]),
    ],
    ids=["no drafts", "none drafted", "accepted", "a row without tokens"],
)
def test_a_row_goes_on_from_its_last_accepted_token(
    drafted: list[int] | None, sampled: list[list[int]], rows: list[int], expected: list[int]
) -> None:
    all_states, places = StepStates(states(8), drafted).last(rows, sampled)

    assert all_states[list(places), 0].tolist() == expected


class Notebook:
    """A memory that only says what it was told and asked."""

    def __init__(self) -> None:
        self.noted: list[object] = []

    def note(
        self,
        requests: list[str],
        sampled: list[list[int]],
        hidden: torch.Tensor,
        first: list[int] | None,
    ) -> None:
        self.noted.append((requests, sampled, len(hidden), first))

    def view(self, requests: list[str]) -> object:
        return tuple(requests)


class Looking:
    """A head whose drafts say for whom it was shown something."""

    def guess(
        self, states: torch.Tensor, rows: list[int], tokens: list[int], n: int, view: object
    ) -> list[tuple[list[int], list[float]]]:
        assert (rows, tokens, view) == ([4], [7], ("c",))
        return [([0] * n, [0.0] * n)]


def test_a_memory_is_told_of_new_rows_and_asked_for_those_that_draft() -> None:
    memory = Notebook()

    run = HeadRun(
        Looking(),  # type: ignore[arg-type]  # likewise
        2,
        StepStates(states(8), [2, 0, 3]),
        ["a", "b", "c"],
        [[5, 6], [], [7]],
        memory=memory,  # type: ignore[arg-type]
    )

    assert memory.noted == [(["a", "b", "c"], [[5, 6], [], [7]], 8, [0, 3, 4, 8])]
    assert len(run([2])) == 1


def test_a_run_gives_lists_by_row_and_its_time() -> None:
    run = HeadRun(
        Echo(),  # type: ignore[arg-type]  # of the head only `guess` is used
        2,
        StepStates(states(8), [2, 0, 3]),
        ["a", "b", "c"],
        [[5, 6], [], [7]],
        memory=None,
    )
    assert (run.rows, run.seconds) == (0, 0.0)

    drafts = run([0, 2])

    assert drafts == [([6, 1], [0.5, 0.5]), ([7, 4], [0.5, 0.5])]
    assert run.rows == 2
    assert run.seconds > 0.0
