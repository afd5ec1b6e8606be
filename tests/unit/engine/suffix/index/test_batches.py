"""Calls that stand for several: they do what single ones would."""

from typing import Any

import numpy as np
import pytest

from tests.unit.engine.suffix.index.indexes import PHRASE, build, portrait, read_only, rows


def test_a_batch_drafts_what_single_calls_do() -> None:
    index, twin = build(), build()
    for each in (index, twin):
        each.start("second", "acme", [*PHRASE, *PHRASE[:2]])
        each.predict("second", [*PHRASE[:2], 1, 2])

    batch = index.propose_many(["second", "now"], rows(3, 8), min_survival=0.1)
    singles = [
        twin.propose("second", 3, min_survival=0.1),
        twin.propose("now", 8, min_survival=0.1),
    ]

    assert batch.tokens.shape == batch.survival.shape == (2, 8)
    assert batch.tokens.dtype == np.int32
    assert batch.survival.dtype == np.float32
    assert batch.predicted.dtype == np.int32
    assert batch.predicted.tolist() == [draft.predicted for draft in singles] == [3, 0]
    assert batch.lengths.tolist() == [len(draft) for draft in singles]
    for row, draft in enumerate(singles):
        assert batch.tokens[row, : len(draft)].tolist() == draft.tokens
        assert batch.survival[row, : len(draft)].tolist() == draft.survival
        assert not batch.tokens[row, len(draft) :].any()


@pytest.mark.parametrize("most", [0, 3])
def test_to_advance_is_to_extend_and_to_propose(most: int) -> None:
    one, other = build(), build()
    for _ in range(3):
        draft = one.advance("now", PHRASE[3:5], most, 0.01)

        other.extend("now", PHRASE[3:5])
        if most:
            expected = other.propose("now", most, min_survival=0.01)
            assert (draft.tokens, draft.survival) == (expected.tokens, expected.survival)
        else:
            assert draft.tokens == []
    assert portrait(one) == portrait(other)


def test_a_batch_may_be_empty() -> None:
    batch = build().propose_many([], rows())

    assert batch.tokens.shape == batch.survival.shape == (0, 0)
    assert batch.lengths.shape == batch.predicted.shape == (0,)


def test_a_batch_may_ask_for_no_tokens() -> None:
    batch = build().propose_many(["now"], rows(0))

    assert (batch.tokens.shape, batch.lengths.tolist()) == ((1, 0), [0])


def test_a_batch_may_name_a_request_twice() -> None:
    batch = build().propose_many(["now", "now"], rows(6, 6))

    assert batch.lengths[0] > 0
    assert batch.tokens[0].tolist() == batch.tokens[1].tolist()


@pytest.mark.parametrize("names", [["now"], ("now",)], ids=["list", "tuple"])
@pytest.mark.parametrize(
    "most",
    [
        pytest.param(read_only(np.array([4], np.int32)), id="read-only"),
        pytest.param(np.array([4, 9], np.int32)[::2], id="strided"),
    ],
)
def test_a_batch_takes_any_sequence_and_any_int32_column(names: Any, most: Any) -> None:
    assert build().propose_many(names, most).lengths.tolist() == [4]
