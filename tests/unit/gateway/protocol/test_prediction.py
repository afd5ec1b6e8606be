import json
from typing import Any

import pytest

from gateway.errors import InvalidRequestError, UpstreamError
from gateway.protocol.prediction import read_prediction, read_tokens, tokenize_body


def text(value: object) -> dict[str, object]:
    return {"type": "text", "text": value}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        ({"type": "content", "content": "one\ntwo"}, "one\ntwo"),
        ({"type": "content", "content": ""}, ""),
        ({"type": "content", "content": []}, ""),
        ({"type": "content", "content": [text("one\n"), text(""), text("two")]}, "one\ntwo"),
        ({"type": "content", "content": "one", "more": 1}, "one"),
    ],
    ids=["none", "text", "empty-text", "no-parts", "parts", "unknown-member"],
)
def test_the_text_is_read_from_either_shape(value: object, expected: str) -> None:
    assert read_prediction(value) == expected


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("text", "prediction"),
        ({}, "prediction.type"),
        ({"type": "text", "content": "x"}, "prediction.type"),
        ({"type": ["content"], "content": "x"}, "prediction.type"),
        ({"type": "content"}, "prediction.content"),
        ({"type": "content", "content": 7}, "prediction.content"),
        ({"type": "content", "content": text("x")}, "prediction.content"),
        ({"type": "content", "content": ["x"]}, "prediction.content"),
        ({"type": "content", "content": [text("x"), {"type": "text"}]}, "prediction.content"),
        ({"type": "content", "content": [{"type": "image_url"}]}, "prediction.content"),
    ],
    ids=str,
)
def test_any_other_shape_is_refused_by_name(value: object, param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_prediction(value)

    assert caught.value.param == param


@pytest.mark.parametrize("words", ["hé🙂", '"', "\ud800"], ids=ascii)
def test_only_the_text_is_sent_to_the_worker(words: str) -> None:
    body = json.loads(tokenize_body(words, model="m"))

    assert body == {"model": "m", "prompt": words, "add_special_tokens": False}
    assert "model" not in json.loads(tokenize_body(words, model=None))


def test_ids_are_read_in_order() -> None:
    assert read_tokens({"count": 3, "tokens": [5, 0, 2**31 - 1]}) == [5, 0, 2**31 - 1]
    assert read_tokens({"tokens": []}) == []


@pytest.mark.parametrize(
    "answer",
    [
        {},
        *({"tokens": tokens} for tokens in (None, "abc", {"0": 1}, ["a"], [1.0], [True], [[1]])),
        *({"tokens": tokens} for tokens in ([1, -1], [2**31], [10**400])),
    ],
    ids=lambda answer: str(answer)[:40],
)
def test_an_invalid_list_of_ids_is_the_workers_fault(answer: dict[str, Any]) -> None:
    with pytest.raises(UpstreamError):
        read_tokens(answer)
