import json
from typing import Any

import pytest

from gateway.errors import InvalidRequestError, UpstreamError
from gateway.protocol.prediction import read_prediction, read_tokens, tokenize_body

ONE, TWO = {"type": "text", "text": "one\n"}, {"type": "text", "text": "two"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [("one\ntwo", "one\ntwo"), ("", ""), ([], ""), ([ONE, TWO], "one\ntwo")],
    ids=str,
)
def test_the_text_is_read_from_a_string_or_parts(content: object, expected: str) -> None:
    assert read_prediction({"type": "content", "content": content, "more": 1}) == expected


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("text", "prediction"),
        ({}, "prediction.type"),
        ({"type": "text", "content": "x"}, "prediction.type"),
        ({"type": ["content"], "content": "x"}, "prediction.type"),
        *(
            ({"type": "content", "content": content}, "prediction.content")
            for content in (None, 7, ONE, ["x"], [ONE, {"type": "text"}], [{"type": "image_url"}])
        ),
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
    [{}, *({"tokens": tokens} for tokens in (None, "abc", [1.0], [True], [[1]], [1, -1], [2**31]))],
    ids=str,
)
def test_an_invalid_list_of_ids_is_the_workers_fault(answer: dict[str, Any]) -> None:
    with pytest.raises(UpstreamError):
        read_tokens(answer)
