from collections.abc import Iterator

import pytest

from gateway import errors
from gateway.errors import (
    AuthenticationError,
    BodyTooLargeError,
    CallerError,
    CapacityError,
    ContextTooLongError,
    DrainingError,
    GatewayError,
    InternalError,
    InvalidRequestError,
    MethodNotAllowedError,
    ModelNotFoundError,
    NoHealthyWorkerError,
    NotFoundError,
    PermissionDeniedError,
    QueueFullError,
    QueueTimeoutError,
    RateLimitError,
    RelayedError,
    RequestTimeoutError,
    UpstreamError,
    WorkerLostError,
    WorkerTimeoutError,
)


def kinds() -> Iterator[type[GatewayError]]:
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, GatewayError):
            yield value


@pytest.mark.parametrize(
    ("error", "status", "kind", "code", "outcome"),
    [
        (InvalidRequestError(""), 400, "invalid_request_error", None, "caller_error"),
        (
            ContextTooLongError(""),
            400,
            "invalid_request_error",
            "context_length_exceeded",
            "caller_error",
        ),
        (AuthenticationError(""), 401, "authentication_error", "invalid_api_key", "caller_error"),
        (PermissionDeniedError(""), 403, "permission_error", "permission_denied", "caller_error"),
        (NotFoundError(""), 404, "invalid_request_error", "not_found", "caller_error"),
        (ModelNotFoundError(""), 404, "invalid_request_error", "model_not_found", "caller_error"),
        (
            MethodNotAllowedError(""),
            405,
            "invalid_request_error",
            "method_not_allowed",
            "caller_error",
        ),
        (RequestTimeoutError(""), 408, "invalid_request_error", "request_timeout", "caller_error"),
        (BodyTooLargeError(""), 413, "invalid_request_error", "request_too_large", "caller_error"),
        (
            RateLimitError("", retry_after_seconds=1),
            429,
            "rate_limit_error",
            "rate_limit_exceeded",
            "rejected",
        ),
        (QueueFullError("", retry_after_seconds=1), 503, "server_error", "overloaded", "rejected"),
        (
            QueueTimeoutError("", retry_after_seconds=1),
            503,
            "server_error",
            "overloaded",
            "rejected",
        ),
        (DrainingError("", retry_after_seconds=1), 503, "server_error", "overloaded", "rejected"),
        (UpstreamError(""), 502, "server_error", "bad_gateway", "upstream_error"),
        (WorkerLostError("", sent=True), 502, "server_error", "worker_lost", "upstream_error"),
        (NoHealthyWorkerError(""), 503, "server_error", "no_healthy_worker", "upstream_error"),
        (WorkerTimeoutError(""), 504, "server_error", "timeout", "upstream_error"),
        (InternalError(""), 500, "server_error", None, "internal_error"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, GatewayError) else "",
)
def test_each_error_has_its_place_in_openais_scheme(
    error: GatewayError, status: int, kind: str, code: str | None, outcome: str
) -> None:
    assert (error.status, error.type, error.code, error.outcome) == (status, kind, code, outcome)


@pytest.mark.parametrize("kind", list(kinds()), ids=lambda kind: kind.__name__)
def test_every_error_belongs_to_a_family(kind: type[GatewayError]) -> None:
    families = (CallerError, CapacityError, UpstreamError, InternalError, RelayedError)

    assert kind is GatewayError or issubclass(kind, families)


@pytest.mark.parametrize("family", [CallerError, CapacityError, UpstreamError, InternalError])
def test_within_a_family_reasons_are_told_apart(family: type[GatewayError]) -> None:
    members = [kind for kind in kinds() if issubclass(kind, family) and kind is not family]
    # "Invalid" is what the family of callers' errors means when nothing better fits.
    reasons = [kind.reason for kind in members]

    assert len(set(reasons)) == len(reasons)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.01, "1"), (1.0, "1"), (1.2, "2"), (2.4, "3"), (59.0, "59")]
)
def test_retry_after_is_never_too_early(seconds: float, shown: str) -> None:
    error = RateLimitError("", retry_after_seconds=seconds)

    assert error.headers == {"retry-after": shown}


def test_without_a_time_there_is_no_retry_after() -> None:
    assert UpstreamError("").headers == {}


def test_some_errors_bring_the_header_that_http_asks_for() -> None:
    assert AuthenticationError("").headers == {"www-authenticate": "Bearer"}
    assert BodyTooLargeError("").headers == {"connection": "close"}


def test_a_relayed_error_has_fields_of_its_own() -> None:
    error = RelayedError("m", status=418, type="t", code="c", param="p", retry_after_seconds=1)

    assert (error.status, error.type, error.code, error.param) == (418, "t", "c", "p")
    assert RelayedError.status == 500


def test_the_message_is_the_exceptions_text() -> None:
    error = InvalidRequestError("No.", param="n")

    assert (str(error), error.message, error.param) == ("No.", "No.", "n")
