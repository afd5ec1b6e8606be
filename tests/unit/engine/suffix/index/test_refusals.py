"""What each call refuses; a call that raises changes nothing."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from engine.errors import (
    DuplicateRequestError,
    SuffixCapacityError,
    SuffixError,
    SuffixInputError,
    UnknownRequestError,
)
from engine.suffix import LONGEST_DRAFT, SuffixIndex
from tests.unit.engine.suffix.conversations import BLOCK, MIB
from tests.unit.engine.suffix.index.indexes import Call, build, facts, portrait, wrong

WRONG_TOKENS = {
    "none": None,
    "an int": 5,
    "text": "abc",
    "bytes": b"\x01\x02\x03\x04",
    "a set": {1, 2},
    "a generator": (token for token in [1]),
    "empty list": [],
    "empty array": np.zeros(0, np.int32),
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
    "empty": "",
    "over 1024 bytes": "n" * 1100,
    "over 1024 bytes of UTF-8": "é" * 513,
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
    "none": None,
    "text": "0.5",
    "a bool": True,
    "not a number": math.nan,
    "negative": -0.01,
    "above one": 1.01,
    "infinite": math.inf,
    "above any float": 10**400,
}


WRONG_TEMPERATURES = {
    "none": None,
    "text": "0.5",
    "a bool": True,
    "not a number": math.nan,
    "negative": -0.01,
    "above any float": 10**400,
}


def calls(values: Mapping[str, object], call: Callable[[SuffixIndex, Any], object]) -> list[Any]:
    return [pytest.param(lambda index, v=v: call(index, v), id=k) for k, v in values.items()]


def assert_refused(bad: Call, error: type[Exception] = SuffixInputError) -> None:
    index = build()

    with pytest.raises(error):
        bad(index)

    assert portrait(index) == portrait(build())


@pytest.mark.parametrize(
    "bad",
    [
        *calls(WRONG_TOKENS, lambda index, v: index.start("new", "a", v)),
        *calls(WRONG_TOKENS, lambda index, v: index.extend("now", v)),
        *calls(WRONG_TOKENS, lambda index, v: index.predict("now", v)),
        *calls(WRONG_TOKENS, lambda index, v: index.propose_after("now", v, 0.5, 4)),
    ],
)
def test_wrong_tokens_are_refused_and_change_nothing(bad: Call) -> None:
    assert_refused(bad)


@pytest.mark.parametrize(
    "bad",
    [
        *calls(WRONG_NAMES, lambda index, v: index.start(v, "acme", [1])),
        *calls(WRONG_NAMES, lambda index, v: index.start("new", v, [1])),
    ],
)
def test_wrong_names_are_refused_and_change_nothing(bad: Call) -> None:
    assert_refused(bad)


@pytest.mark.parametrize(
    "bad",
    [
        *calls(WRONG_NAMES, lambda index, v: index.extend(v, [1])),
        *calls(WRONG_NAMES, lambda index, v: index.predict(v, [1])),
        *calls(WRONG_NAMES, lambda index, v: index.propose(v, 1)),
        *calls(WRONG_NAMES, lambda index, v: index.propose_after(v, [1], 0.5, 1)),
        *calls(WRONG_NAMES, lambda index, v: index.finish(v, keep=True)),
    ],
)
def test_wrong_names_of_running_requests_are_refused_with_one_base_class(bad: Call) -> None:
    assert_refused(bad, SuffixError)


@pytest.mark.parametrize(
    "bad",
    [
        *calls(WRONG_COUNTS, lambda index, v: index.propose("now", v)),
        *calls(WRONG_COUNTS, lambda index, v: index.propose_after("now", [1], 0.5, v)),
        *calls(WRONG_TEMPERATURES, lambda index, v: index.start("new", "acme", [1], temperature=v)),
        *calls(WRONG_RATIOS, lambda index, v: index.propose("now", 1, min_survival=v)),
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
        pytest.param(lambda index: index.propose("now", LONGEST_DRAFT + 1), id="long draft"),
        pytest.param(
            lambda index: index.propose_after("now", [1], 0.5, LONGEST_DRAFT + 1), id="long graft"
        ),
        pytest.param(
            lambda index: index.propose_after("now", [1] * (LONGEST_DRAFT + 1), 0.5, 1),
            id="graft behind too many tokens",
        ),
        pytest.param(lambda index: index.finish("now", keep=wrong(1)), id="keep is a number"),
        pytest.param(lambda index: index.finish("now", keep=wrong(None)), id="keep is none"),
        pytest.param(lambda index: index.clear(), id="clear with a request running"),
        pytest.param(lambda index: index.save(wrong(None)), id="save to none"),
        pytest.param(lambda index: index.save("a\0b"), id="save to a null character"),
        pytest.param(lambda index: index.load(wrong(5)), id="load from a number"),
        pytest.param(lambda index: index.load("/s", identity=wrong(1)), id="load wrong identity"),
        pytest.param(lambda index: index.save("/tmp/s", identity=wrong(1)), id="wrong identity"),
        pytest.param(lambda index: index.save("/tmp/s", identity="x" * 4097), id="long identity"),
    ],
)
def test_other_wrong_input_is_refused_and_changes_nothing(bad: Call) -> None:
    assert_refused(bad)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(lambda index: index.extend("old", [1]), id="extend"),
        pytest.param(lambda index: index.predict("old", [1]), id="predict"),
        pytest.param(lambda index: index.propose("old", 1), id="propose"),
        pytest.param(lambda index: index.propose_after("old", [1], 0.5, 1), id="graft"),
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


@pytest.mark.parametrize("vocabulary", ["1", 1.5, True, -1, 0, (1 << 31) + 1, 1 << 70], ids=str)
def test_a_vocabulary_out_of_range_is_refused(vocabulary: object) -> None:
    with pytest.raises(SuffixInputError):
        SuffixIndex(MIB, vocabulary=wrong(vocabulary))


@pytest.mark.parametrize("salt", ["1", 1.5, True, -1, 1 << 64], ids=str)
def test_a_salt_that_is_not_of_64_bits_is_refused(salt: object) -> None:
    with pytest.raises(SuffixInputError):
        SuffixIndex(MIB, salt=wrong(salt))


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
    assert index.propose("request-0", 2).tokens == [3, 1]
