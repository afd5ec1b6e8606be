import json
from typing import Any

import pytest

from gateway.errors import InvalidRequestError, UpstreamError
from gateway.protocol.json_object import json_text
from gateway.protocol.prediction import read_prediction, read_tokens, tokenize_body

ONE, TWO = {"type": "text", "text": "one\n"}, {"type": "text", "text": "two"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [("one\ntwo", "one\ntwo"), ("", ""), ([], ""), ([ONE, TWO], "one\ntwo")],
    ids=str,
)
def test_the_text_is_read_from_a_string_or_parts(content: object, expected: str) -> None:
    value = {"type": "content", "content": content, "more": 1}

    assert read_prediction(json_text(value)) == expected


@pytest.mark.parametrize(
    "value",
    [
        "text",
        {},
        {"content": "x"},
        {"type": "text", "content": "x"},
        {"type": ["content"], "content": "x"},
        *(
            {"type": "content", "content": content}
            for content in (None, 7, ONE, ["x"], [ONE, {"type": "text"}], [{"type": "image_url"}])
        ),
    ],
    ids=str,
)
def test_any_other_shape_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_prediction(json_text(value))

    assert caught.value.param == "prediction"


def test_a_prediction_that_is_too_long_to_use_is_ignored() -> None:
    assert read_prediction(json_text({"type": "content", "content": "x" * 2**22})) == ""


@pytest.mark.parametrize("words", ["hé🙂", '"'], ids=ascii)
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
