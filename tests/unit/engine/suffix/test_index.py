"""What each call accepts, and that a call which raises changes nothing."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from engine.errors import (
    DuplicateRequestError,
    SnapshotError,
    SuffixCapacityError,
    SuffixInputError,
    UnknownRequestError,
)
from engine.suffix import LONGEST_DRAFT, SuffixIndex

MIB = 1 << 20
BLOCK = 1 << 14
PHRASE = [5, 6, 7, 8, 9, 10, 11, 12]

Call = Callable[[SuffixIndex], object]


def build() -> SuffixIndex:
    """An index with a past: one answer kept, one request running with a draft to be judged."""
    index = SuffixIndex(4 * MIB, salt=1)
    index.start("old", "acme", [1, 2, 3])
    index.extend("old", PHRASE * 4)
    index.finish("old", keep=True)
    index.start("now", "acme", [1, 2, *PHRASE, 3])
    index.extend("now", PHRASE[:3])
    index.propose("now", 4, min_survival=0.0)
    return index


def portrait(index: SuffixIndex) -> list[object]:
    """What can be seen of it, what it learns next included."""
    seen: list[object] = [facts(index)]
    for token in PHRASE[3:]:
        draft = index.propose("now", 8, min_survival=0.0)
        seen += [draft.tokens, draft.survival, draft.share, draft.predicted]
        index.extend("now", [token])
    return [*seen, facts(index)]


def facts(index: SuffixIndex) -> tuple[int, ...]:
    stats = index.stats()
    return (stats.tokens, stats.bytes, stats.tenants, stats.requests, stats.evicted_tokens)


def wrong(value: object) -> Any:
    """A value that the types forbid."""
    return cast(Any, value)


def rows(*most: int) -> Any:
    return np.array(most, np.int32)


WRONG_TOKENS = {
    "none": None,
    "an int": 5,
    "text": "abc",
    "bytes": b"\x01\x02\x03\x04",
    "a set": {1, 2},
    "a generator": (token for token in [1]),
    "empty list": [],
    "empty array": np.zeros(0, np.int32),
    "negative": [1, -1],
    "negative in an array": np.array([1, -1], np.int32),
    "above int32": [1, 1 << 31],
    "wraps to a small one": [1, (1 << 32) + 1],
    "above int64": [1, 1 << 70],
    "a tuple above int32": (1, 1 << 31),
    "floats": [1.0, 2.0],
    "bools": [True, False],
    "a nested list": [[1, 2]],
    "a none inside": [1, None],
    "int64": np.array([1, 2], np.int64),
    "int16": np.array([1, 2], np.int16),
    "uint32": np.array([1, 2], np.uint32),
    "float32": np.array([1, 2], np.float32),
    "float64": np.array([1, 2], np.float64),
    "bool array": np.array([True, False]),
    "objects": np.array([1.5, None]),
    "dates": np.array(["2026-01-01"], "datetime64[D]"),
    "no dimension": np.array(1, np.int32),
    "two dimensions": np.ones((2, 2), np.int32),
}

WRONG_NAMES = {
    "none": None,
    "a number": 7,
    "bytes": b"now",
    "half a character": "\ud800",
}

WRONG_COUNTS = {
    "none": None,
    "text": "1",
    "a float": 1.0,
    "a bool": True,
    "negative": -1,
    "above int32": 1 << 31,
    "above int64": 1 << 70,
}

WRONG_RATIOS = {
    "text": "0.5",
    "a bool": True,
    "not a number": math.nan,
    "negative": -0.01,
    "above one": 1.01,
    "infinite": math.inf,
    "above any float": 10**400,
}


def calls(values: Mapping[str, object], call: Callable[[SuffixIndex, Any], object]) -> list[Any]:
    return [pytest.param(lambda index, v=v: call(index, v), id=k) for k, v in values.items()]


def assert_refused(bad: Call, error: type[Exception] = SuffixInputError) -> None:
    index = build()

    with pytest.raises(error):
        bad(index)

    assert portrait(index) == portrait(build())


@pytest.mark.parametrize("bad", calls(WRONG_TOKENS, lambda index, v: index.start("new", "a", v)))
def test_wrong_prompt_tokens_are_refused_and_change_nothing(bad: Call) -> None:
    assert_refused(bad)


@pytest.mark.parametrize("bad", calls(WRONG_TOKENS, lambda index, v: index.extend("now", v)))
def test_wrong_generated_tokens_are_refused_and_change_nothing(bad: Call) -> None:
    assert_refused(bad)


@pytest.mark.parametrize("bad", calls(WRONG_TOKENS, lambda index, v: index.predict("now", v)))
def test_wrong_predicted_tokens_are_refused_and_change_nothing(bad: Call) -> None:
    assert_refused(bad)


@pytest.mark.parametrize(
    "bad", calls(WRONG_TOKENS, lambda index, v: index.propose_after("now", v, 0.5, 4))
)
def test_wrong_tokens_of_another_drafter_are_refused_and_change_nothing(bad: Call) -> None:
    assert_refused(bad)


@pytest.mark.parametrize(
    "bad",
    [
        *calls(WRONG_NAMES, lambda index, v: index.start(v, "acme", [1])),
        *calls(WRONG_NAMES, lambda index, v: index.start("new", v, [1])),
        *calls(WRONG_NAMES, lambda index, v: index.extend(v, [1])),
        *calls(WRONG_NAMES, lambda index, v: index.predict(v, [1])),
        *calls(WRONG_NAMES, lambda index, v: index.propose(v, 1)),
        *calls(WRONG_NAMES, lambda index, v: index.propose_many(["now", v], rows(1, 1))),
        *calls(WRONG_NAMES, lambda index, v: index.propose_after(v, [1], 0.5, 1)),
        *calls(WRONG_NAMES, lambda index, v: index.observe(v, 0)),
        *calls(WRONG_NAMES, lambda index, v: index.finish(v, keep=True)),
    ],
)
def test_wrong_names_are_refused_and_change_nothing(bad: Call) -> None:
    assert_refused(bad)


@pytest.mark.parametrize(
    "bad",
    [
        *calls(WRONG_COUNTS, lambda index, v: index.propose("now", v)),
        *calls(WRONG_COUNTS, lambda index, v: index.propose_after("now", [1], 0.5, v)),
        *calls(WRONG_COUNTS, lambda index, v: index.observe("now", v)),
        *calls(WRONG_RATIOS, lambda index, v: index.propose("now", 1, min_survival=v)),
        *calls(WRONG_RATIOS, lambda index, v: index.propose_many(["now"], rows(1), min_survival=v)),
        *calls(WRONG_RATIOS, lambda index, v: index.propose_after("now", [1], v, 1)),
        *calls(
            WRONG_RATIOS,
            lambda index, v: index.propose_after("now", [1], 0.5, 1, min_survival=v),
        ),
    ],
)
def test_wrong_numbers_are_refused_and_change_nothing(bad: Call) -> None:
    assert_refused(bad)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(lambda index: index.start("", "acme", [1]), id="empty request"),
        pytest.param(lambda index: index.start("new", "", [1]), id="empty tenant"),
        pytest.param(lambda index: index.start("n" * 1025, "acme", [1]), id="long request"),
        pytest.param(lambda index: index.start("new", "é" * 513, [1]), id="long tenant"),
        pytest.param(lambda index: index.propose("now", LONGEST_DRAFT + 1), id="long draft"),
        pytest.param(
            lambda index: index.propose_after("now", [1], 0.5, LONGEST_DRAFT + 1), id="long graft"
        ),
        pytest.param(
            lambda index: index.propose_after("now", [1] * (LONGEST_DRAFT + 1), 0.5, 1),
            id="graft behind too many tokens",
        ),
        pytest.param(
            lambda index: index.propose_after("now", [1], wrong(None), 1), id="no survival"
        ),
        pytest.param(lambda index: index.observe("now", 5), id="more accepted than drafted"),
        pytest.param(lambda index: index.finish("now", keep=wrong(1)), id="keep is a number"),
        pytest.param(lambda index: index.finish("now", keep=wrong(None)), id="keep is none"),
        pytest.param(lambda index: index.clear(), id="clear with a request running"),
        pytest.param(lambda index: index.save(wrong(None)), id="save to none"),
        pytest.param(lambda index: index.save("a\0b"), id="save to a null character"),
        pytest.param(lambda index: index.load(wrong(5)), id="load from a number"),
        pytest.param(lambda index: index.load("/nowhere"), id="load with a request running"),
    ],
)
def test_other_wrong_input_is_refused_and_changes_nothing(bad: Call) -> None:
    assert_refused(bad)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(lambda index: index.propose_many(wrong(None), rows(1)), id="no list"),
        pytest.param(lambda index: index.propose_many("now", rows(1, 1, 1)), id="a lone name"),
        pytest.param(lambda index: index.propose_many(["now"], rows(1, 1)), id="too many lengths"),
        pytest.param(lambda index: index.propose_many(["now", "now"], rows(1)), id="too few"),
        pytest.param(lambda index: index.propose_many(["now"], wrong([1])), id="a list of lengths"),
        pytest.param(
            lambda index: index.propose_many(["now"], wrong(np.array([1]))), id="int64 lengths"
        ),
        pytest.param(
            lambda index: index.propose_many(["now"], wrong(np.array([[1]], np.int32))),
            id="two dimensions",
        ),
        pytest.param(lambda index: index.propose_many(["now"], rows(-1)), id="negative"),
        pytest.param(
            lambda index: index.propose_many(["now", "now"], rows(4, -1)), id="one negative"
        ),
        pytest.param(
            lambda index: index.propose_many(["now"], rows(LONGEST_DRAFT + 1)), id="long draft"
        ),
    ],
)
def test_a_wrong_batch_is_refused_and_changes_nothing(bad: Call) -> None:
    assert_refused(bad)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(lambda index: index.extend("old", [1]), id="extend"),
        pytest.param(lambda index: index.predict("old", [1]), id="predict"),
        pytest.param(lambda index: index.propose("old", 1), id="propose"),
        pytest.param(lambda index: index.propose_many(["now", "old"], rows(8, 8)), id="a row"),
        pytest.param(lambda index: index.propose_after("old", [1], 0.5, 1), id="graft"),
        pytest.param(lambda index: index.observe("old", 0), id="observe"),
        pytest.param(lambda index: index.finish("old", keep=True), id="finish"),
        pytest.param(lambda index: index.extend("never", [1]), id="never started"),
    ],
)
def test_an_unknown_request_is_named_so_and_nothing_changes(bad: Call) -> None:
    assert_refused(bad, UnknownRequestError)


def test_a_running_request_cannot_be_started_again() -> None:
    assert_refused(lambda index: index.start("now", "other", [1]), DuplicateRequestError)


@pytest.mark.parametrize(
    "capacity", [None, "1", True, -1, 0, MIB - 1, (64 << 30) + (1 << 14), 1 << 70]
)
def test_a_capacity_out_of_range_is_refused(capacity: object) -> None:
    with pytest.raises(SuffixInputError):
        SuffixIndex(wrong(capacity))


@pytest.mark.parametrize("capacity", [MIB, 64 << 30, np.int64(MIB)])
def test_the_ends_of_the_range_are_accepted_and_cost_nothing_yet(capacity: int) -> None:
    index = SuffixIndex(capacity)

    assert (index.stats().capacity_bytes, index.stats().bytes) == (capacity, 0)


@pytest.mark.parametrize("salt", ["1", 1.5, True, -1, 1 << 64], ids=str)
def test_a_salt_that_is_not_of_64_bits_is_refused(salt: object) -> None:
    with pytest.raises(SuffixInputError):
        SuffixIndex(MIB, salt=wrong(salt))


@pytest.mark.parametrize("salt", [None, 0, (1 << 64) - 1])
def test_every_salt_of_64_bits_is_accepted(salt: int | None) -> None:
    assert SuffixIndex(MIB, salt=salt).stats().requests == 0


def test_requests_without_room_are_refused_and_the_others_go_on() -> None:
    index = SuffixIndex(MIB, salt=1)
    while index.stats().capacity_bytes - index.stats().bytes >= 5 * BLOCK:
        index.start(f"request-{index.stats().requests}", "acme", [1, 2, 3, 1, 2])
    before = facts(index)

    with pytest.raises(SuffixCapacityError):
        index.start("one", "acme", [1, 2])
    with pytest.raises(SuffixCapacityError):
        index.start("one", "another tenant", [1, 2])
    index.predict("request-0", [7, 8, 9])

    assert facts(index) == before
    assert index.propose("request-0", 2, min_survival=0.0).tokens == [3, 1]


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


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

    assert index.propose("new", 1, min_survival=0.0).tokens == [4]


def test_a_draft_of_no_tokens_is_empty_and_the_longest_is_allowed() -> None:
    index = build()

    assert len(index.propose("now", 0)) == 0
    assert len(index.propose("now", LONGEST_DRAFT, min_survival=0.0)) > 20


def test_a_graft_of_no_tokens_is_empty_and_the_longest_behind_the_most_is_allowed() -> None:
    index = build()
    most = (PHRASE * LONGEST_DRAFT)[:LONGEST_DRAFT]

    assert len(index.propose_after("now", PHRASE, 1.0, 0, min_survival=0.0)) == 0
    assert len(index.propose_after("now", most, 1.0, LONGEST_DRAFT, min_survival=0.0)) > 20


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


@pytest.mark.parametrize(
    "arguments",
    [("now", [], 3, 0.1), ("now", [1], 300, 0.1), ("now", [1], -1, 0.1), ("now", [1], 3, 2.0)],
    ids=["no tokens", "too many", "negative", "not a probability"],
)
def test_a_wrong_advance_is_refused_and_changes_nothing(arguments: Any) -> None:
    index = build()

    with pytest.raises(SuffixInputError):
        index.advance(*arguments)

    assert portrait(index) == portrait(build())


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


def test_survival_never_rises_and_lies_between_zero_and_one() -> None:
    survival = build().propose("now", 64, min_survival=0.0).survival

    assert survival == sorted(survival, reverse=True)
    assert 0.0 <= survival[-1] <= survival[0] <= 1.0


def test_a_draft_ends_before_the_first_token_that_is_too_unsure() -> None:
    every = build().propose("now", 16, min_survival=0.0)
    middle = every.survival[7]

    some = build().propose("now", 16, min_survival=middle)

    assert some.survival == [one for one in every.survival if one >= middle]


def test_a_draft_without_a_bound_ends_where_a_token_of_this_tenant_stops_to_pay() -> None:
    index = build()
    mean = 2.0 + 0.002 * (4 + 1 - 2.0)  # after one step that took all four tokens
    prices = [0.0715 * mean**0.75 * (place + 1) ** 0.5 for place in range(64)]
    index.observe("now", 4)
    index.extend("now", PHRASE[3:5])

    every = index.propose("now", 64, min_survival=0.0).survival
    paying = index.propose("now", 64).survival

    assert paying == [one for one, price in zip(every, prices, strict=False) if one >= price]
    assert 0 < len(paying) < len(every)


def test_a_graft_without_a_bound_pays_for_the_tokens_before_it_too() -> None:
    index = build()
    before = PHRASE[3:7]
    prices = [0.0715 * 2.0**0.75 * (place + 1) ** 0.5 for place in range(4, 64)]

    every = index.propose_after("now", before, 1.0, 60, min_survival=0.0).survival
    paying = index.propose_after("now", before, 1.0, 60).survival

    assert paying == [one for one, price in zip(every, prices, strict=False) if one >= price]
    assert 0 < len(paying) < len(every)


def test_what_is_almost_sure_is_drafted_however_long_the_draft() -> None:
    index = SuffixIndex(4 * MIB, salt=1)
    index.start("loop", "acme", [7] * 100)
    for _ in range(40):
        index.extend("loop", [*index.propose("loop", 64).tokens, 7])

    draft = index.propose("loop", LONGEST_DRAFT)

    assert 0.0715 * 2.0**0.75 * LONGEST_DRAFT**0.5 > 1.0  # with no highest price it would end
    assert len(draft) == LONGEST_DRAFT


def test_an_outcome_is_counted_once() -> None:
    index = build()

    index.observe("now", 4)

    with pytest.raises(SuffixInputError):
        index.observe("now", 1)
    index.observe("now", 0)


def test_observing_an_outcome_teaches_what_extend_would_find_out() -> None:
    index, twin = build(), build()
    index.observe("now", 4)
    index.extend("now", [*PHRASE[3:7], 1])
    twin.extend("now", [*PHRASE[3:7], 1])

    assert index.propose("now", 4).tokens == twin.propose("now", 4).tokens


def test_a_missing_file_is_an_os_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "missing"

    with pytest.raises(FileNotFoundError, match="missing") as caught:
        SuffixIndex(MIB).load(path)

    assert caught.value.filename == path


def test_a_place_that_cannot_be_written_is_an_os_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-folder"):
        SuffixIndex(MIB).save(tmp_path / "no-folder" / "file")


def test_paths_may_be_text_bytes_or_objects_and_need_not_be_unicode(tmp_path: Path) -> None:
    index = SuffixIndex(MIB)
    odd = bytes(tmp_path) + b"/\xff"

    for path in (str(tmp_path / "text"), tmp_path / "object", wrong(odd)):
        index.save(path)
        index.load(path)

    assert len(list(tmp_path.iterdir())) == 3


def test_a_damaged_file_is_a_snapshot_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"no snapshot" * 10)

    with pytest.raises(SnapshotError):
        SuffixIndex(MIB).load(path)
