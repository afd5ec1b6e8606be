"""OpenAI's `prediction`: the text that a caller expects back, and its conversion to token ids.

Source: OpenAI API reference, "Create chat completion", field `prediction`.
"""

import json
from collections.abc import Mapping
from typing import Any

from gateway.errors import InvalidRequestError, UpstreamError

_MAX_TOKEN_ID = 2**31 - 1
"""Ids are 32-bit integers in the worker."""


def read_prediction(value: object) -> str:
    """The text of a request's `prediction`; empty when there is none.

    Raises:
        InvalidRequestError: It is not `{"type": "content", "content": ...}` with a string or a
            list of text parts.
    """
    if value is None:
        return ""
    if not isinstance(value, dict):
        raise InvalidRequestError("'prediction' must be an object.", param="prediction")
    if value.get("type") != "content":
        raise InvalidRequestError("'prediction.type' must be 'content'.", param="prediction.type")
    content = value.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _no_content()
    return "".join(map(_text_of, content))


def tokenize_body(text: str, *, model: str | None) -> bytes:
    """The request body for `/tokenize`: the ids of `text`, without special tokens."""
    named = {} if model is None else {"model": model}
    return json.dumps({**named, "prompt": text, "add_special_tokens": False}).encode()


def read_tokens(answer: Mapping[str, Any]) -> list[int]:
    """The token ids in an answer of `/tokenize`.

    Raises:
        UpstreamError: It has no list of valid ids.
    """
    tokens = answer.get("tokens")
    if not isinstance(tokens, list) or not set(map(type, tokens)) <= {int}:
        raise UpstreamError("The engine sent no list of tokens.")
    if tokens and not 0 <= min(tokens) <= max(tokens) <= _MAX_TOKEN_ID:
        raise UpstreamError("The engine sent invalid token ids.")
    return tokens


def _text_of(part: object) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
    if not isinstance(text, str):
        raise _no_content()
    return text


def _no_content() -> InvalidRequestError:
    return InvalidRequestError(
        "'prediction.content' must be a string or a list of text parts.",
        param="prediction.content",
    )
