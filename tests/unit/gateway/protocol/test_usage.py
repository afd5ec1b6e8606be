import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol.usage import (
    cut_running_usage,
    read_usage,
    usage_at_end,
    with_prediction_counts,
)
from gateway.types import Usage

COUNT = st.integers(0, 10**6)
NESTED_COUNTS = st.dictionaries(st.text("abc_", min_size=1), COUNT | st.none(), max_size=3)
USAGE = st.builds(
    lambda tokens, prompt, details: {
        "prompt_tokens": prompt,
        "total_tokens": prompt + tokens,
        "completion_tokens": tokens,
        "prompt_tokens_details": details,
    },
    COUNT,
    COUNT,
    st.none() | NESTED_COUNTS,
)
# What a model may write, the key that we look for included.
MODEL_TEXT = st.lists(
    st.sampled_from([',"usage":{"completion_tokens":9}', '"', "\\", "}", "{", "é", "\n", "x"]),
    max_size=6,
).map("".join)


def frame_of(chunk: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


@given(MODEL_TEXT, USAGE, st.dictionaries(st.just("vendor"), MODEL_TEXT))
def test_removing_usage_equals_removing_the_json_member(
    text: str, usage: dict[str, Any], more: dict[str, str]
) -> None:
    chunk: dict[str, Any] = {"id": "x", "choices": [{"delta": {"content": text}}]}
    with_usage = frame_of(chunk | {"usage": usage} | more)

    frame, running = cut_running_usage(with_usage)

    assert (frame, running) == (frame_of(chunk | more), usage["completion_tokens"])
    assert usage_at_end(with_usage) == read_usage(usage)


@pytest.mark.parametrize(
    "usage",
    [
        *(b"{oops}", b"[1]", b'{"completion_tokens":null}', b'{"completion_tokens":1.5}'),
        b'{"details":"\xff"}',
        b'{"completion_tokens":' + 5000 * b"1" + b"}",
    ],
)
def test_invalid_running_usage_counts_nothing(usage: bytes) -> None:
    frame = b'data: {"choices":[{}],"usage":' + usage + b"}\n\n"

    assert cut_running_usage(frame) == (frame, None)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (b'{"completion_tokens": 3 }', 3),
        (b'{"completion_tokens":1,"completion_tokens":3}', 3),
        (b'{"completion_tokens":3,"completion_tokens":null}', None),
        (b'{"details":{"completion_tokens":9},"completion_tokens":3}', 3),
        (b'{"completion_tokens":3,"details":{"completion_tokens":9}}', 3),
        (b'{"note":"completion_tokens","completion_tokens":3}', 3),
        (b'{"details":{"completion_tokens":9}}', None),
        (b'{"completion_tokens":"3"}', None),
        (b'{"completion_tokens":3e5}', None),
    ],
    ids=str,
)
def test_the_running_count_is_a_member_of_usage_itself(usage: bytes, tokens: int | None) -> None:
    frame = b'data: {"choices":[{}],"usage":' + usage + b"}\n\n"

    assert cut_running_usage(frame)[1] == tokens


def test_usage_that_is_no_object_counts_nothing_at_the_end() -> None:
    assert usage_at_end(b'{"data":[],"usage":{oops}}') is None
    assert usage_at_end(b'{"data":[]}') is None
    deep = b'{"data":[],"usage":{"a":' + 3000 * b"[" + 3000 * b"]" + b"}}"
    assert usage_at_end(deep) is None


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}, Usage(7, 3)),
        ({"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(7, 0, 4)),
        ({"input_tokens": 7, "input_tokens_details": {"cached_tokens": 4}}, Usage(7, 0, 4)),
        ({"input_tokens": 3, "output_tokens": 3, "cache_read_input_tokens": 4}, Usage(7, 3, 4)),
        (
            {"input_tokens": 1, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2},
            Usage(7, 0, 4),
        ),
        ({"prompt_tokens": 7, "prompt_tokens_details": [1]}, Usage(7)),
        ({"prompt_tokens": "7", "completion_tokens": None}, Usage()),
        ({"prompt_tokens": -7, "completion_tokens": -1}, Usage()),
        (None, None),
    ],
    ids=str,
)
def test_the_names_of_each_endpoint_are_understood(usage: object, expected: Usage | None) -> None:
    assert read_usage(usage) == expected


@given(
    MODEL_TEXT,
    USAGE,
    st.none() | NESTED_COUNTS,
    st.booleans(),
    st.dictionaries(st.just("vendor"), MODEL_TEXT),
)
def test_only_the_outcome_of_a_prediction_is_added(
    text: str,
    usage: dict[str, Any],
    details: dict[str, Any] | None,
    has_details: bool,
    more: dict[str, str],
) -> None:
    if has_details:
        usage = {**usage, "completion_tokens_details": details}
    chunk: dict[str, Any] = {"id": "x", "choices": [{"text": text}], "usage": usage} | more
    counts = {"accepted_prediction_tokens": 5, "rejected_prediction_tokens": 2}

    edited = with_prediction_counts(frame_of(chunk), accepted=5, rejected=2)

    told_details = {**((details if has_details else None) or {}), **counts}
    told_usage = {**usage, "completion_tokens_details": told_details}
    assert edited == frame_of({**chunk, "usage": told_usage})


def test_spelling_and_order_of_the_other_counts_stay() -> None:
    before = (
        b'{"a": 1.0,"usage":{"completion_tokens_details": {"reasoning_tokens" : 0 },'
        b' "completion_tokens":3.0 } , "b":[ ]}'
    )

    after = with_prediction_counts(before, accepted=1, rejected=0)

    details = (
        b'{"reasoning_tokens":0,"accepted_prediction_tokens":1,"rejected_prediction_tokens":0}'
    )
    usage = b'{"completion_tokens_details":' + details + b',"completion_tokens":3.0}'
    assert after == b'{"a": 1.0,"usage":' + usage + b' , "b":[ ]}'


@pytest.mark.parametrize(
    "usage",
    [b"null", b"[]", b"{oops}", b'{"completion_tokens_details":[1]}', b'{"a":{"b":{'],
    ids=str,
)
def test_unknown_usage_gets_no_counts(usage: bytes) -> None:
    body = b'{"choices":[],"usage":' + usage + b"}"

    assert with_prediction_counts(body, accepted=1, rejected=0) == body
