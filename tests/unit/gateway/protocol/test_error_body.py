import json
from typing import Any

import pytest

from gateway.errors import (
    AuthenticationError,
    BodyTooLargeError,
    CapacityError,
    GatewayError,
    InternalError,
    InvalidRequestError,
    MethodNotAllowedError,
    ModelNotFoundError,
    PermissionDeniedError,
    RateLimitError,
    UpstreamError,
    WorkerTimeoutError,
)
from gateway.protocol.endpoints import Dialect
from gateway.protocol.error_body import (
    error_body,
    error_event,
    field_name,
    relayed_error,
    relayed_stream_error,
)

BAD = InvalidRequestError("No.", param="n")
OBJECT = {"message": "No.", "type": "invalid_request_error", "param": "n", "code": None}
INVALID = "invalid_request_error"


def vllm(message: object, **more: object) -> bytes:
    return json.dumps({"error": {"message": message, "code": 400, **more}}).encode()


@pytest.mark.parametrize(
    ("dialect", "event", "body", "more"),
    [
        (Dialect.CHAT, "", {}, {}),
        (Dialect.COMPLETIONS, "", {}, {}),
        (Dialect.MESSAGES, "event: error\n", {"type": "error"}, {}),
        (
            Dialect.RESPONSES,
            "event: error\n",
            {},
            {**OBJECT, "type": "error", "sequence_number": 7},
        ),
    ],
)
def test_each_dialect_has_its_error_body_and_event(
    dialect: Dialect, event: str, body: dict[str, Any], more: dict[str, Any]
) -> None:
    frame = error_event(BAD, dialect, sequence_number=7).decode()

    assert json.loads(error_body(BAD, dialect)) == {**body, "error": OBJECT}
    assert frame.startswith(f"{event}data: ")
    assert frame.endswith("\n\n")
    data = json.loads(frame.removeprefix(f"{event}data: "))
    assert data == {**body, **more, "error": OBJECT}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BAD, INVALID),
        (MethodNotAllowedError("No."), INVALID),
        (AuthenticationError("No."), "authentication_error"),
        (PermissionDeniedError("No."), "permission_error"),
        (ModelNotFoundError("No."), "not_found_error"),
        (BodyTooLargeError("No."), "request_too_large"),
        (RateLimitError("No.", retry_after_seconds=1), "rate_limit_error"),
        (InternalError("No."), "api_error"),
        (UpstreamError("No."), "api_error"),
        (CapacityError("No.", retry_after_seconds=1), "overloaded_error"),
        (WorkerTimeoutError("No."), "timeout_error"),
    ],
    ids=lambda value: getattr(value, "code", value),
)
def test_on_messages_an_error_has_anthropics_type(error: GatewayError, kind: str) -> None:
    body = json.loads(error_body(error, Dialect.MESSAGES, request_id="r-1"))
    event = json.loads(error_event(error, Dialect.MESSAGES).split(b"data: ")[1])

    assert body == {**event, "request_id": "r-1"}
    assert event["type"] == "error"
    assert (event["error"]["type"], event["error"]["message"]) == (kind, "No.")
    assert json.loads(error_body(error, Dialect.CHAT))["error"]["type"] == error.type


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (("body", "messages", 0, "content"), "messages[0].content"),
        (("body", "messages", 0, "content", 12, "text"), "messages[0].content[12].text"),
        (("n",), "n"),
        (("tools", "body"), "tools.body"),
        (("body",), None),
        ((), None),
        (("x" * 300,), "x" * 200 + "..."),
    ],
    ids=str,
)
def test_a_place_has_openais_notation(place: tuple[str | int, ...], name: str | None) -> None:
    assert field_name(place) == name


@pytest.mark.parametrize("dialect", list(Dialect), ids=str)
def test_no_message_can_break_the_frame_or_the_encoding(dialect: Dialect) -> None:
    error = GatewayError("a\n\ndata: x\r\u2028\ud800")

    frame = error_event(error, dialect)

    assert frame.count(b"\n\n") == 1
    assert b"\r" not in frame
    assert frame.decode()
    assert error_body(error, dialect).decode()


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, vllm("Bad n.", param="n"), ("Bad n.", INVALID, None, "n")),
        (400, vllm("Bad n.", param=7), ("Bad n.", INVALID, None, None)),
        (
            400,
            vllm("Bad.", param="body.messages.0.role"),
            ("Bad.", INVALID, None, "messages[0].role"),
        ),
        (400, b'{"detail":[{"loc":["body","n"],"msg":"Bad."}]}', ("Bad.", INVALID, None, "n")),
        (400, b'{"detail":[{"loc":7,"msg":"Bad."}]}', ("Bad.", INVALID, None, None)),
        (400, vllm("x" * 9_000), ("x" * 1_000,)),
        (400, b'{"message": "Old.", "param": "x"}', ("Old.", INVALID, None, "x")),
        (400, b'{"detail": "Text."}', ("Text.", INVALID, None, None)),
        (400, vllm("Use a/b or https://x.org/docs/a."), ("Use a/b or https://x.org/docs/a.",)),
        (403, vllm("No."), ("No.", "permission_error", None, None)),
        (404, vllm("Gone."), ("Gone.", INVALID, "not_found", None)),
        (418, vllm("Tea."), ("Tea.", INVALID, None, None)),
        (429, vllm("Slow."), ("Slow.", "rate_limit_error", "rate_limit_exceeded", None)),
        (404, vllm("The model `x` does not exist."), None),
        (400, vllm("This model's maximum context length is 8192 tokens."), None),
        (400, vllm("max_tokens is over max_model_len"), None),
        (400, vllm("The prompt is longer than the maximum model length of 8192."), None),
    ],
)
def test_a_refusal_keeps_its_status_and_message(
    status: int, body: bytes, expected: tuple[Any, ...] | None
) -> None:
    error = relayed_error(status, body)

    assert error.status == status
    assert error.outcome == "caller_error"
    assert error.headers == ({"retry-after": "1"} if status == 429 else {})
    found = (error.message, error.type, error.code, error.param)
    if expected is None:
        assert error.code == ("model_not_found" if status == 404 else "context_length_exceeded")
    else:
        assert found[: len(expected)] == expected


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"detail": []}',
        b'{"detail": ["x"]}',
        b'{"error":' + b"[" * 100_000,
        vllm(None),
        vllm("cannot open /home/user/models/x.safetensors"),
        vllm('bad file "/models/x/config.json"'),
        vllm("Traceback (most recent call last):\n ..."),
    ],
    ids=lambda body: repr(body[:40]),
)
def test_a_message_with_internals_is_replaced(body: bytes) -> None:
    error = relayed_error(400, body)

    assert (error.status, error.message) == (400, "The engine refused this request.")


@pytest.mark.parametrize("status", [500, 503, 401])  # 401: the gateway's own key was refused
def test_a_failure_of_the_worker_reveals_nothing(status: int) -> None:
    error = relayed_error(status, vllm("secret"))

    assert isinstance(error, UpstreamError)
    assert error.status == 502
    assert "secret" not in error.message


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (vllm("Gone.", code=404), 404),
        (vllm("Boom.", code=500), 502),
        (vllm("Boom.", code="x"), 502),
        (b"{oops", 502),
    ],
)
def test_an_error_in_a_stream_has_the_status_it_carries(data: bytes, status: int) -> None:
    assert relayed_stream_error(data).status == status
