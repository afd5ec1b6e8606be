import json
from typing import Any

import pytest

from gateway.errors import (
    ContextTooLongError,
    GatewayError,
    InvalidRequestError,
    ModelNotFoundError,
    UpstreamError,
)
from gateway.protocol.endpoints import Dialect
from gateway.protocol.error_body import (
    error_body,
    error_event,
    relayed_error,
    relayed_stream_error,
)

BAD = InvalidRequestError("No.", param="n")
OBJECT = {"message": "No.", "type": "invalid_request_error", "param": "n", "code": None}


def vllm(message: object, **more: object) -> bytes:
    return json.dumps({"error": {"message": message, "code": 400, **more}}).encode()


@pytest.mark.parametrize(
    ("dialect", "event", "fields"),
    [
        (Dialect.CHAT, "", {"error": OBJECT}),
        (Dialect.COMPLETIONS, "", {"error": OBJECT}),
        (Dialect.MESSAGES, "event: error\n", {"type": "error", "error": OBJECT}),
        (
            Dialect.RESPONSES,
            "event: error\n",
            {**OBJECT, "type": "error", "sequence_number": 7, "error": OBJECT},
        ),
    ],
    ids=["chat", "completions", "messages", "responses"],
)
def test_an_event_is_one_frame(dialect: Dialect, event: str, fields: dict[str, Any]) -> None:
    frame = error_event(BAD, dialect, sequence_number=7).decode()

    assert frame.startswith(f"{event}data: ")
    assert frame.endswith("\n\n")
    assert json.loads(frame.removeprefix(f"{event}data: ")) == fields
    expected = {"type": "error"} if dialect is Dialect.MESSAGES else {}
    assert json.loads(error_body(BAD, dialect)) == {**expected, "error": OBJECT}


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
        (400, vllm("Bad n.", param="n"), (400, "Bad n.", "invalid_request_error", None, "n")),
        (400, vllm("Bad n.", param=7), (400, "Bad n.", "invalid_request_error", None, None)),
        (
            400,
            b'{"message": "Old shape.", "param": "x"}',
            (400, "Old shape.", "invalid_request_error", None, "x"),
        ),
        (400, b'{"detail": "Text."}', (400, "Text.", "invalid_request_error", None, None)),
        (403, vllm("No."), (403, "No.", "permission_error", None, None)),
        (404, vllm("Gone."), (404, "Gone.", "invalid_request_error", "not_found", None)),
        (418, vllm("Tea."), (418, "Tea.", "invalid_request_error", None, None)),
        (429, vllm("Slow."), (429, "Slow.", "rate_limit_error", "rate_limit_exceeded", None)),
    ],
    ids=str,
)
def test_a_refusal_keeps_its_status_and_message(
    status: int, body: bytes, expected: tuple[Any, ...]
) -> None:
    error = relayed_error(status, body)

    assert (error.status, error.message, error.type, error.code, error.param) == expected
    assert error.outcome == "caller_error"
    assert error.headers == ({"retry-after": "1"} if status == 429 else {})


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens.",
        "max_tokens is over max_model_len",
        "The prompt is longer than the maximum model length of 8192.",
    ],
)
def test_a_prompt_that_does_not_fit_has_openais_code(message: str) -> None:
    error = relayed_error(400, vllm(message, param="input"))

    assert isinstance(error, ContextTooLongError)
    assert (error.code, error.param) == ("context_length_exceeded", "input")


def test_an_unknown_model_has_openais_code() -> None:
    error = relayed_error(404, vllm("The model `x` does not exist."))

    assert isinstance(error, ModelNotFoundError)
    assert (error.code, error.param) == ("model_not_found", "model")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"\xff",
        b"{}",
        b'{"detail": [{"loc": ["body"], "msg": "x"}]}',
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


@pytest.mark.parametrize(
    "message",
    ["Use a/b or https://example.org/docs/errors.", "n must be 1 and/or less.", "Date: 1/2/3"],
)
def test_a_harmless_slash_is_not_a_path(message: str) -> None:
    assert relayed_error(400, vllm(message)).message == message


@pytest.mark.parametrize("status", [500, 503, 401])  # 401: the gateway's own key was refused
def test_a_failure_of_the_worker_reveals_nothing(status: int) -> None:
    error = relayed_error(status, vllm("secret"))

    assert isinstance(error, UpstreamError)
    assert error.status == 502
    assert "secret" not in error.message


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (vllm("Bad.", code=400), 400),
        (vllm("Gone.", code=404), 404),
        (vllm("Boom.", code=500), 502),
        (vllm("Boom.", code="x"), 502),
        (vllm("Boom.", code=None), 502),
        (b"{oops", 502),
    ],
    ids=["400", "404", "500", "text", "none", "no-json"],
)
def test_an_error_in_a_stream_has_the_status_it_carries(data: bytes, status: int) -> None:
    assert relayed_stream_error(data).status == status
