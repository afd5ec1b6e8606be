import pytest

from engine.errors import TrainingError
from engine.training.documents import Document
from engine.training.native.dataset import Rows

DOCUMENTS = [
    Document(0, "a", (1, 2), (3, 4, 5)),
    Document(1, "a", (1, 2), (3,)),  # nothing to draft
    Document(2, "a", tuple(range(9)), (3, 4)),  # no room for the answer
    Document(3, "a", (7,), (8,) * 20),
]


def test_documents_become_rows_in_order_and_long_ones_are_cut() -> None:
    rows = Rows.of(DOCUMENTS, [Document(4, "a", (), (5, 6))], longest=8)

    assert rows == Rows([[1, 2, 3, 4, 5], [7, *[8] * 7], [5, 6]], [2, 1, 0], training=2)


@pytest.mark.parametrize("empty", [0, 1])
def test_each_part_needs_text(empty: int) -> None:
    parts = [DOCUMENTS, DOCUMENTS]
    parts[empty] = DOCUMENTS[1:3]

    with pytest.raises(TrainingError, match=r"increase text\.tokens"):
        Rows.of(*parts, longest=8)


@pytest.mark.parametrize("total", range(2, 60, 7))
def test_the_library_splits_rows_where_we_do(total: int) -> None:
    for training in range(1, total):
        rows = Rows([[1]] * total, [0] * total, training)

        assert int(total * rows.training_ratio) == training  # as in its ArrowDataset


def test_the_mark_names_rows_split_and_facts() -> None:
    rows = Rows([[1, 2], [3, 4]], [1, 1], 1)
    others = [
        Rows([[1, 2], [3, 5]], [1, 1], 1).mark("x"),
        Rows([[1, 2], [3, 4]], [1, 0], 1).mark("x"),
        Rows([[1, 2], [3, 4]], [1, 1], 2).mark("x"),
        rows.mark("y"),
    ]

    assert rows.mark("x") == Rows([[1, 2], [3, 4]], [1, 1], 1).mark("x")
    assert rows.mark("x") not in others


def test_only_answers_that_are_trained_on_are_counted() -> None:
    rows = Rows([[9, 1, 1], [8, 2, 1], [7, 3, 3]], [1, 1, 1], training=2)

    assert rows.count_learnt() == {1: 3, 2: 1}
