"""Every error a caller can meet, with its HTTP status and OpenAI error code.

There are four families: the caller's fault, no capacity, the worker's fault, our fault. Routes
raise them and `api/error_handler.py` writes the response. `ConfigError` is only raised at start-up.
"""

from math import ceil

from gateway.types import Outcome

_EXCERPT_CHARACTERS = 200


def excerpt(text: str) -> str:
    """As much of a caller's text as an error may repeat."""
    return text if len(text) <= _EXCERPT_CHARACTERS else text[:_EXCERPT_CHARACTERS] + "..."


class ConfigError(Exception):
    """The settings are wrong; the process exits with status 2."""


class GatewayError(Exception):
    """A request that fails, with what the caller is told.

    Attributes:
        status: HTTP status.
        type: OpenAI `error.type`.
        code: OpenAI `error.code`, or None.
        message: Text for the caller: without paths, stack traces or data of others.
        param: Name of the offending request field, or None.
        retry_after_seconds: When to try again; becomes `Retry-After`. None: header left out.
        reason: Fixed word for metric labels and logs.
        outcome: Outcome of the request, for metrics and the access line.
    """

    status: int = 500
    type: str = "server_error"
    code: str | None = None
    reason: str = "internal"
    outcome: Outcome = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_seconds = retry_after_seconds

    @property
    def headers(self) -> dict[str, str]:
        """Extra response headers that belong to this error."""
        if self.retry_after_seconds is None:
            return {}
        return {"retry-after": str(max(1, ceil(self.retry_after_seconds)))}


class CallerError(GatewayError):
    """The request itself is wrong; repeating it unchanged will not help."""

    status = 400
    type = "invalid_request_error"
    reason = "invalid_request"
    outcome = "caller_error"


class InvalidRequestError(CallerError):
    """The body is not a JSON object, or a field has an invalid value."""


class ContextTooLongError(CallerError):
    """Prompt and requested output do not fit the model's context."""

    code = "context_length_exceeded"
    reason = "context_too_long"


class AuthenticationError(CallerError):
    """No key, or an unknown key."""

    status = 401
    type = "authentication_error"
    code = "invalid_api_key"
    reason = "unauthenticated"

    @property
    def headers(self) -> dict[str, str]:
        """`WWW-Authenticate`, which RFC 9110 (section 11.6.1) requires with 401."""
        return {"www-authenticate": "Bearer"}


class PermissionDeniedError(CallerError):
    """The key is valid but may not do this."""

    status = 403
    type = "permission_error"
    code = "permission_denied"
    reason = "forbidden"


class NotFoundError(CallerError):
    """No such path."""

    status = 404
    code = "not_found"
    reason = "not_found"


class ModelNotFoundError(NotFoundError):
    """No worker serves a model of that name."""

    code = "model_not_found"
    reason = "model_not_found"


class ResponseNotFoundError(CallerError):
    """No response of that id is kept for the caller."""

    status = 404
    reason = "response_not_found"


class PreviousResponseNotFoundError(CallerError):
    """The response that the request continues is not kept; 400 as OpenAI has it."""

    code = "previous_response_not_found"
    reason = "previous_response_not_found"


class UnsupportedParameterError(CallerError):
    """The request asks for what the gateway's settings turn off."""

    code = "unsupported_parameter"
    reason = "unsupported_parameter"


class MethodNotAllowedError(CallerError):
    """The path exists, the method does not."""

    status = 405
    code = "method_not_allowed"
    reason = "method_not_allowed"


class HeadTooLargeError(CallerError):
    """The head of the request has too many bytes or too many headers."""

    status = 431
    code = "request_head_too_large"
    reason = "head_too_large"


class RequestTimeoutError(CallerError):
    """The caller took too long to send its request."""

    status = 408
    code = "request_timeout"
    reason = "slow_body"


class UnsupportedMediaTypeError(CallerError):
    """The body has a `Content-Encoding`; only plain bodies are read."""

    status = 415
    code = "unsupported_media_type"
    reason = "unsupported_media_type"


class BodyTooLargeError(CallerError):
    """The body is over the limit; none of it was forwarded."""

    status = 413
    code = "request_too_large"
    reason = "body_too_large"

    @property
    def headers(self) -> dict[str, str]:
        """`Connection: close`: the rest of the body is not read."""
        return {"connection": "close"}


class CapacityError(GatewayError):
    """The request is valid, but there is no capacity for it now."""

    status = 503
    type = "server_error"
    code = "overloaded"
    reason = "overloaded"
    outcome = "rejected"

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)


class RateLimitError(CapacityError):
    """The key has used up one of its limits."""

    status = 429
    type = "rate_limit_error"
    code = "rate_limit_exceeded"
    reason = "rate_limit"


class BytesInFlightError(RateLimitError):
    """The bodies of running and waiting requests take all the memory that they may."""

    reason = "bytes_in_flight"


class LimitsUnavailableError(CapacityError):
    """The store that the replicas share does not answer, and the settings say to refuse."""

    reason = "limits_unavailable"


class ResponsesUnavailableError(CapacityError):
    """The store of responses does not answer."""

    reason = "responses_unavailable"


class QueueFullError(CapacityError):
    """All slots are in use; the queue is full, or another tenant had a better claim to it."""

    reason = "queue_full"


class QueueTimeoutError(CapacityError):
    """No slot became free in time."""

    reason = "queue_timeout"


class DrainingError(CapacityError):
    """The gateway is shutting down and accepts no new requests."""

    reason = "draining"


class UpstreamError(GatewayError):
    """The worker failed."""

    status = 502
    type = "server_error"
    code = "bad_gateway"
    reason = "bad_answer"
    outcome = "upstream_error"


class WorkerLostError(UpstreamError):
    """The connection to the worker failed or broke; a retry may succeed.

    `sent` tells whether the worker may have received the request.
    """

    code = "worker_lost"
    reason = "lost"

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message, retry_after_seconds=1.0)
        self.sent = sent


class WorkerLeftError(WorkerLostError):
    """The worker is leaving, and the request was taken from it to go on with another one."""

    reason = "left"

    def __init__(self) -> None:
        super().__init__("The engine is leaving.", sent=True)


class WorkerBusyError(UpstreamError):
    """The worker has no capacity now: it answered 503 with `Retry-After`.

    It works, so this does not count towards its ejection; another worker may have room.
    """

    status = 503
    code = "overloaded"
    reason = "busy"


class NoHealthyWorkerError(UpstreamError):
    """No worker became healthy within the time that the request may wait."""

    status = 503
    code = "no_healthy_worker"
    reason = "none_healthy"


class WorkerTimeoutError(UpstreamError):
    """The worker sent nothing for too long."""

    status = 504
    code = "timeout"
    reason = "timeout"


class InternalError(GatewayError):
    """Our fault; the log has the details, the caller gets none."""


class RelayedError(GatewayError):
    """An error response of a worker; each instance has its own status and code."""

    reason = "relayed"
    outcome = "caller_error"

    def __init__(
        self,
        message: str,
        *,
        status: int,
        type: str,  # OpenAI's field name
        code: str | None,
        param: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, param=param, retry_after_seconds=retry_after_seconds)
        self.status = status
        self.type = type
        self.code = code
