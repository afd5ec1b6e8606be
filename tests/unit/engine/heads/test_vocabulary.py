import pytest

from engine.errors import HeadInputError
from engine.heads import Vocabulary
from tests.unit.engine.heads.conftest import small_mlp


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
        Vocabulary(small_mlp(draft_vocab_size=draft), ids)
