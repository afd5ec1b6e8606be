import pytest
import torch

from engine.heads.view import View
from engine.worker.head import HeadRun, StepStates


def states(rows: int) -> torch.Tensor:
    """Row n is filled with n."""
    return torch.arange(rows, dtype=torch.float32)[:, None].expand(rows, 4)


class Echo:
    """A head that drafts its input: the newest token, then the number of its state."""

    def guess(
        self, states: torch.Tensor, rows: list[int], tokens: list[int], n: int, _view: View | None
    ) -> list[tuple[list[int], list[float]]]:
        numbers = states[rows, 0].long().tolist()
        drafts = [[token, number][:n] for token, number in zip(tokens, numbers, strict=True)]
        return [(draft, [0.5] * len(draft)) for draft in drafts]


@pytest.mark.parametrize(
    ("drafted", "sampled", "sequences", "expected"),
    [
        (None, [[7], [8], [9]], [0, 2], [0, 2]),
        ([0, 0, 0], [[7], [8], [9]], [1], [1]),
        ([2, 0, 3], [[7, 7], [8], [9, 9, 9, 9]], [0, 1, 2], [1, 3, 7]),
        ([2, 0, 3], [[7], [], [9]], [0, 2], [0, 4]),
    ],
    ids=["no drafts", "empty drafts", "accepted", "a sequence without tokens"],
)
def test_a_sequence_continues_from_its_last_accepted_token(
    drafted: list[int] | None, sampled: list[list[int]], sequences: list[int], expected: list[int]
) -> None:
    all_states, positions = StepStates(states(8), drafted).last(sequences, sampled)

    assert all_states[list(positions), 0].tolist() == expected


def test_a_pass_returns_drafts_by_sequence_and_its_time() -> None:
    run = HeadRun(
        Echo(),  # type: ignore[arg-type]  # of the head only `guess` is used
        2,
        StepStates(states(8), [2, 0, 3]),
        ["a", "b", "c"],
        [[5, 6], [], [7]],
        memory=None,
    )
    assert (run.sequences, run.seconds) == (0, 0.0)

    drafts = run([0, 2])

    assert drafts == [([6, 1], [0.5, 0.5]), ([7, 4], [0.5, 0.5])]
    assert run.sequences == 2
    assert run.seconds > 0.0
