"""The forms in which tokens and numbers are taken, and that they are copied."""

from typing import Any

import numpy as np
import pytest

from engine.suffix import LONGEST_DRAFT, SuffixIndex
from tests.unit.engine.suffix.conversations import MIB
from tests.unit.engine.suffix.index.indexes import PHRASE, build, portrait, read_only, wrong


@pytest.mark.parametrize("capacity", [MIB, 64 << 30, np.int64(MIB)])
def test_the_ends_of_the_range_are_accepted_and_cost_nothing_yet(capacity: int) -> None:
    index = SuffixIndex(capacity)

    assert (index.stats().capacity_bytes, index.stats().bytes) == (capacity, 0)


@pytest.mark.parametrize("salt", [None, 0, (1 << 64) - 1])
def test_every_salt_of_64_bits_is_accepted(salt: int | None) -> None:
    assert SuffixIndex(MIB, salt=salt).stats().requests == 0


@pytest.mark.parametrize(
    "tokens",
    [
        pytest.param(tuple(PHRASE), id="tuple"),
        pytest.param(range(5, 13), id="range"),
        pytest.param([np.int32(token) for token in PHRASE], id="numpy scalars"),
        pytest.param(np.array(PHRASE, np.int32), id="array"),
        pytest.param(read_only(np.array(PHRASE, np.int32)), id="read-only"),
        pytest.param(np.repeat(np.array(PHRASE, np.int32), 3)[::3], id="every third"),
        pytest.param(np.array(PHRASE[::-1], np.int32)[::-1], id="backwards"),
        pytest.param(np.stack([np.array(PHRASE, np.int32)] * 2)[1], id="row of a matrix"),
        pytest.param(np.stack([np.array(PHRASE, np.int32)] * 2, 1)[:, 1], id="a column"),
    ],
)
def test_every_form_of_the_same_tokens_does_the_same(tokens: Any) -> None:
    index, twin = build(), build()
    pairs = ((index, tokens), (twin, PHRASE))
    for each, form in pairs:
        each.start("new", "acme", form)
        each.predict("new", form)
        each.extend("new", form)
        each.extend("now", form)

    grafts = [each.propose_after("new", form, 0.5, 8) for each, form in pairs]
    assert grafts[0].tokens == grafts[1].tokens != []
    assert portrait(index) == portrait(twin)
    assert index.propose("new", 8).tokens == twin.propose("new", 8).tokens


def test_tokens_are_copied() -> None:
    index, twin = build(), build()
    tokens = np.array(PHRASE, np.int32)
    index.start("new", "acme", tokens)
    twin.start("new", "acme", PHRASE)

    tokens[:] = 77
    index.extend("new", PHRASE[:2])
    twin.extend("new", PHRASE[:2])

    assert index.propose("new", 4).tokens == twin.propose("new", 4).tokens


def test_a_list_that_changes_while_it_is_read_is_read_safely() -> None:
    tokens: list[Any] = []

    class Shrinks:
        def __index__(self) -> int:
            tokens.clear()
            return 3

    tokens += [1, Shrinks(), 2, 2, 2]
    index = SuffixIndex(MIB)

    index.start("new", "acme", tokens)

    assert index.stats().requests == 1


def test_what_a_list_raises_by_itself_passes() -> None:
    class Breaks:
        def __index__(self) -> int:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        build().extend("now", [1, wrong(Breaks())])


def test_the_largest_token_is_a_token_like_any_other() -> None:
    index = SuffixIndex(MIB, salt=1)
    largest = (1 << 31) - 1

    index.start("new", "acme", [largest, 4, largest, 4, largest])

    assert index.propose("new", 1).tokens == [4]


def test_a_draft_of_no_tokens_is_empty_and_the_longest_is_allowed() -> None:
    index = build()

    assert len(index.propose("now", 0)) == 0
    assert len(index.propose("now", LONGEST_DRAFT)) > 20


def test_a_graft_of_no_tokens_is_empty_and_the_longest_behind_the_most_is_allowed() -> None:
    index = build()
    most = (PHRASE * LONGEST_DRAFT)[:LONGEST_DRAFT]

    assert len(index.propose_after("now", PHRASE, 1.0, 0)) == 0
    assert len(index.propose_after("now", most, 1.0, LONGEST_DRAFT)) > 20
