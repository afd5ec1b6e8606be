"""Error bodies: every error has OpenAI's shape, whether the gateway or the worker raised it.

`{"error": {"message", "type", "param", "code"}}`. On `/v1/messages` it has Anthropic's: the same
object with a type of theirs, beside `"type": "error"` and `request_id`. Sources: OpenAI API
reference (error object), Anthropic API reference (errors).
"""

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from gateway.errors import (
    ContextTooLongError,
    GatewayError,
    ModelNotFoundError,
    RelayedError,
    UpstreamError,
    excerpt,
)
from gateway.protocol.endpoints import Dialect
from gateway.protocol.sse import data_frame

_TYPES = {
    400: "invalid_request_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    409: "conflict_error",
    413: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
}
# Source: Anthropic API reference, "Errors". It does not list 503, which means what their 529 does.
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_CODES = {404: "not_found", 429: "rate_limit_exceeded"}
_CONTEXT = re.compile(r"maximum context length|max_model_len|longer than the maximum model length")
_NO_MODEL = re.compile(r"model .* does not exist", re.IGNORECASE | re.DOTALL)
# A file path with two or more folders, or a Python traceback: reveals the machine's layout.
_INTERNAL = re.compile(r"(?:^|[\s'\"(=])(?:/[\w.+-]+){2,}|Traceback \(most recent|File \"")
_MAX_MESSAGE_CHARACTERS = 1_000
"""A worker may repeat what the caller sent."""
_SERVER_MESSAGE = "The engine failed to answer this request."
_CALLER_MESSAGE = "The engine refused this request."


def error_body(
    error: GatewayError, dialect: Dialect = Dialect.PLAIN, *, request_id: str | None = None
) -> bytes:
    """The JSON body of an error answer, in the shape that the endpoint's SDK expects.

    Args:
        error: The error.
        dialect: The endpoint's.
        request_id: The request's id, which Anthropic puts into the body.
    """
    body: dict[str, Any] = {"error": _object_of(error)}
    if dialect is Dialect.MESSAGES:
        body["error"]["type"] = _anthropic_type(error.status)
        named = {} if request_id is None else {"request_id": request_id}
        body = {"type": "error", **body, **named}
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def field_name(place: Iterable[str | int]) -> str | None:
    """A place in a body in OpenAI's notation (`messages[0].content`); None: the body itself.

    Args:
        place: Names and positions as in pydantic's errors, where the first may be `body`.
    """
    name = ""
    for number, part in enumerate(map(str, place)):
        if part.isdecimal():
            name += f"[{part}]"
        elif number or part != "body":
            name += f".{part}" if name else part
    return excerpt(name) or None


def error_event(error: GatewayError, dialect: Dialect, *, sequence_number: int = 0) -> bytes:
    """The one SSE frame that ends a failed stream.

    Every official SDK raises it as an API error: OpenAI's look for an `error` member in chat and
    completion chunks and for the event `error` on `/v1/responses`, Anthropic's for `error` too.
    """
    if dialect is Dialect.RESPONSES:
        event = {
            "type": "error",
            "code": error.code,
            "message": error.message,
            "param": error.param,
            "sequence_number": sequence_number,
            "error": _object_of(error),
        }
        return data_frame(json.dumps(event).encode(), event=b"error")
    if dialect is Dialect.MESSAGES:
        return data_frame(error_body(error, dialect), event=b"error")
    return data_frame(error_body(error))


def relayed_error(status: int, body: bytes) -> GatewayError:
    """Turn a worker's error answer into an error of ours.

    Args:
        status: The worker's HTTP status, >= 400.
        body: Its body in any of vLLM's shapes (`{"error": {...}}`, `{"detail": ...}`,
            Anthropic's), or anything else.

    Returns:
        The error to raise. A message that contains a path or a traceback is replaced, and so is
        every message of a 5xx or 401. The worker's own log has the original.
    """
    if status >= 500 or status == 401:  # 401: the worker refused the gateway's key
        return UpstreamError(_SERVER_MESSAGE)
    found = _error_of(body)
    message = str(found.get("message") or "")[:_MAX_MESSAGE_CHARACTERS]
    param = found.get("param")
    param = field_name(param.split(".")) if isinstance(param, str) else None
    if not message or _INTERNAL.search(message):
        message = _CALLER_MESSAGE
    if status == 400 and _CONTEXT.search(message):
        return ContextTooLongError(message, param=param)
    if status == 404 and _NO_MODEL.search(message):
        return ModelNotFoundError(message, param="model")
    return RelayedError(
        message,
        status=status,
        type=_TYPES.get(status, "invalid_request_error"),
        code=_CODES.get(status),
        param=param,
        retry_after_seconds=1.0 if status == 429 else None,
    )


def relayed_stream_error(data: bytes) -> GatewayError:
    """Turn an error that a worker sent inside a stream into an error of ours."""
    status = _error_of(data).get("code")
    if isinstance(status, int) and 400 <= status < 500:
        return relayed_error(status, data)
    return UpstreamError(_SERVER_MESSAGE)


def _object_of(error: GatewayError) -> dict[str, Any]:
    return {
        "message": error.message,
        "type": error.type,
        "param": error.param,
        "code": error.code,
    }


def _anthropic_type(status: int) -> str:
    return _ANTHROPIC_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")


def _error_of(body: bytes) -> dict[str, Any]:
    try:
        parsed = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(parsed, dict):
        return {}
    error, detail = parsed.get("error"), parsed.get("detail")
    if isinstance(error, dict):
        return error
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):  # as FastAPI has it
        place = detail[0].get("loc")
        where = ".".join(map(str, place)) if isinstance(place, list) else None
        return {"message": detail[0].get("msg"), "param": where}
    for key in ("message", "detail", "error"):
        if isinstance(parsed.get(key), str):
            return {
                "message": parsed[key],
                "code": parsed.get("code"),
                "param": parsed.get("param"),
            }
    return {}
