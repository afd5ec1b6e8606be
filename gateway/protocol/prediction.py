"""OpenAI's `prediction`: the text that a caller expects back, and its conversion to token ids.

Source: OpenAI API reference, "Create chat completion", field `prediction`.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw

from gateway.errors import InvalidRequestError, UpstreamError
from gateway.protocol.json_object import is_null

_MAX_TOKEN_ID = 2**31 - 1
"""Ids are 32-bit integers in the worker."""
_MAX_BYTES = 4 * 2**20
"""A longer one is ignored: workers tokenize far less of it, and it costs memory to decode."""


class _Part(msgspec.Struct):
    type: Literal["text"]
    text: str


class _Prediction(msgspec.Struct):
    type: Literal["content"]
    content: str | list[_Part]


_PREDICTION = msgspec.json.Decoder(_Prediction)


def read_prediction(value: Raw | None) -> str:
    """The text of a request's `prediction`; empty when there is none, or it is too long to use.

    Raises:
        InvalidRequestError: It is not `{"type": "content", "content": ...}` with a string or a
            list of text parts.
    """
    if value is None or is_null(value) or len(memoryview(value)) > _MAX_BYTES:
        return ""
    try:
        content = _PREDICTION.decode(value).content
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequestError(
            '\'prediction\' must be {"type": "content", "content": ...} with a string or a list '
            "of text parts.",
            param="prediction",
        ) from error
    return content if isinstance(content, str) else "".join([part.text for part in content])


def tokenize_body(text: str, *, model: str | None) -> bytes:
    """The request body for `/tokenize`: the ids of `text`, without special tokens."""
    named = {} if model is None else {"model": model}
    return msgspec.json.encode({**named, "prompt": text, "add_special_tokens": False})


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
