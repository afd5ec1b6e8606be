import pytest
import torch

from engine.errors import HeadInputError
from engine.heads import IGNORED, HeadConfig, Vocabulary


def make_config(draft: int | None) -> HeadConfig:
    return HeadConfig(
        kind="mlp",
        hidden_size=4,
        vocab_size=10,
        inner_size=4,
        positions=2,
        draft_vocab_size=draft,
    )


def test_truncated_ids_lead_there_and_back() -> None:
    vocabulary = Vocabulary(make_config(3), [2, 5, 9])

    assert vocabulary.target_ids(torch.tensor([[0, 2], [1, 1]])).tolist() == [[2, 9], [5, 5]]
    assert vocabulary.draft_ids(torch.tensor([9, 0, 5])).tolist() == [2, IGNORED, 1]


def test_whole_vocabulary_leaves_ids_alone() -> None:
    vocabulary = Vocabulary(make_config(None))

    tokens = torch.tensor([3, 9])
    assert vocabulary.target_ids(tokens).tolist() == vocabulary.draft_ids(tokens).tolist() == [3, 9]


def test_what_is_left_out_is_named_once() -> None:
    vocabulary = Vocabulary(make_config(3), [2, 5, 9])

    found = vocabulary.left_out(torch.tensor([[7, -1, 5, 1, 7, 2], [9, 9, 0, 3, 0, 0]]))

    assert [[token for token in row if token >= 0] for row in found.tolist()] == [[1, 7], [0, 3]]
    assert found.shape == (2, 6)


def test_a_whole_vocabulary_leaves_nothing_out() -> None:
    assert Vocabulary(make_config(None)).left_out(torch.tensor([[3, 9]])).tolist() == [[-1, -1]]


def test_ids_beyond_the_vocabulary_are_those_of_more() -> None:
    vocabulary = Vocabulary(make_config(3), [2, 5, 9])
    more = torch.tensor([[-1, 7], [4, -1], [-1, -1]])

    assert vocabulary.target_ids(torch.tensor([4, 3, 1]), more).tolist() == [7, 4, 5]


@pytest.mark.parametrize(
    ("draft", "ids", "rows"), [(None, None, list(range(10))), (2, [1, 8], [1, 8])]
)
def test_rows_are_those_that_can_be_drafted(
    draft: int | None, ids: list[int] | None, rows: list[int]
) -> None:
    padded = torch.arange(12)[:, None]

    assert Vocabulary(make_config(draft), ids).rows_of(padded)[:, 0].tolist() == rows


def test_ignored_tokens_are_those_that_cross_entropy_passes_over() -> None:
    labels = Vocabulary(make_config(2), [1, 8]).draft_ids(torch.tensor([8, 3]))

    loss = torch.nn.functional.cross_entropy(torch.zeros(2, 2), labels, reduction="sum")

    assert loss.item() == pytest.approx(0.6931, abs=1e-4)


@pytest.mark.parametrize(
    ("draft", "ids", "problem"),
    [
        (None, [1], "both or none"),
        (2, None, "both or none"),
        (2, [1, 2, 3], "shape"),
        (2, [3, 3], "rise"),
        (2, [5, 4], "rise"),
        (2, [-1, 4], "found -1 to 4"),
        (2, [4, 10], "found 4 to 10"),
    ],
)
def test_ids_that_do_not_fit_are_refused(
    draft: int | None, ids: list[int] | None, problem: str
) -> None:
    with pytest.raises(HeadInputError, match=problem):
        Vocabulary(make_config(draft), ids)
