import pytest
import torch

from engine.worker.head import HeadRun, StepStates


def states(rows: int) -> torch.Tensor:
    """Row n is filled with n."""
    return torch.arange(rows, dtype=torch.float32)[:, None].expand(rows, 4)


class Echo:
    """A head that proposes what it was given: the newest token, then the number of its state."""

    def propose(
        self, hidden: torch.Tensor, tokens: torch.Tensor, n: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        drafts = torch.stack([tokens, hidden[:, 0].long()], dim=1)[:, :n]
        return drafts, torch.full(drafts.shape, 0.5)


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
    last = StepStates(states(8), drafted).last(rows, sampled)

    assert last[:, 0].tolist() == expected


def test_a_run_gives_lists_by_row_and_its_time() -> None:
    run = HeadRun(Echo(), 2, StepStates(states(8), [2, 0, 3]), [[5, 6], [], [7]])  # type: ignore[arg-type]  # of the head only `propose` is used
    assert run.seconds == 0.0

    drafts = run([0, 2])

    assert drafts == [([6, 1], [0.5, 0.5]), ([7, 4], [0.5, 0.5])]
    assert run.seconds > 0.0
