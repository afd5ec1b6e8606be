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


def test_truncated_ids_map_both_ways() -> None:
    vocabulary = Vocabulary(make_config(3), [2, 5, 9])

    assert vocabulary.target_ids(torch.tensor([[0, 2], [1, 1]])).tolist() == [[2, 9], [5, 5]]
    assert vocabulary.draft_ids(torch.tensor([9, 0, 5])).tolist() == [2, IGNORED, 1]


def test_tokens_left_out_are_listed_once() -> None:
    vocabulary = Vocabulary(make_config(3), [2, 5, 9])

    found = vocabulary.left_out(torch.tensor([[7, -1, 5, 1, 7, 2], [9, 9, 0, 3, 0, 0]]))

    assert [[token for token in row if token >= 0] for row in found.tolist()] == [[1, 7], [0, 3]]
    assert found.shape == (2, 6)


def test_ids_beyond_the_vocabulary_index_the_extra_tokens() -> None:
    vocabulary = Vocabulary(make_config(3), [2, 5, 9])
    more = torch.tensor([[-1, 7], [4, -1], [-1, -1]])

    assert vocabulary.target_ids(torch.tensor([4, 3, 1]), more).tolist() == [7, 4, 5]


@pytest.mark.parametrize(
    ("draft", "ids", "problem"),
    [
        (None, [1], "require each other"),
        (2, None, "require each other"),
        (2, [1, 2, 3], "shape"),
        (2, [3, 3], "rising"),
        (2, [5, 4], "rising"),
        (2, [-1, 4], "found -1 to 4"),
        (2, [4, 10], "found 4 to 10"),
    ],
)
def test_invalid_ids_are_rejected(draft: int | None, ids: list[int] | None, problem: str) -> None:
    with pytest.raises(HeadInputError, match=problem):
        Vocabulary(make_config(draft), ids)
