import pytest

from engine.errors import HeadInputError
from engine.heads import HeadConfig, Vocabulary


def make_config(draft: int | None) -> HeadConfig:
    return HeadConfig(
        kind="mlp",
        hidden_size=4,
        vocab_size=10,
        inner_size=4,
        positions=2,
        draft_vocab_size=draft,
    )


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
