"""Every error a caller can meet, with its HTTP status and OpenAI error code.

Four families: the caller's fault, no capacity, the worker's fault, ours. Routes raise, one
handler (`api/error_handler.py`) writes the body. `ConfigError` stands apart: start-up only.
"""

from math import ceil

from gateway.types import Outcome


class ConfigError(Exception):
    """The settings are wrong; raised at start only, the process exits with status 2."""


class GatewayError(Exception):
    """An answer that is not the one the caller hoped for.

    Attributes:
        status: HTTP status.
        type: OpenAI `error.type`.
        code: OpenAI `error.code`, or None.
        message: Text that is safe to show to the caller: no path, no stack, nobody else's data.
        param: Name of the offending request field, or None.
        retry_after_seconds: When to try again; becomes `Retry-After`. None: header left out.
        reason: Short fixed word for metric labels and logs.
        outcome: What it makes of a request, for metrics and the access line.
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
    """Not JSON, not an object, or a field that cannot be what it is."""


class ContextTooLongError(CallerError):
    """Prompt and requested output do not fit the model's context."""

    code = "context_length_exceeded"
    reason = "context_too_long"


class AuthenticationError(CallerError):
    """No key, or a key nobody issued."""

    status = 401
    type = "authentication_error"
    code = "invalid_api_key"
    reason = "unauthenticated"

    @property
    def headers(self) -> dict[str, str]:
        """`WWW-Authenticate`, which RFC 9110 (section 11.6.1) asks of every 401."""
        return {"www-authenticate": "Bearer"}


class PermissionDeniedError(CallerError):
    """The key is known, and may not do this."""

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


class MethodNotAllowedError(CallerError):
    """The path exists, the method does not."""

    status = 405
    code = "method_not_allowed"
    reason = "method_not_allowed"


class RequestTimeoutError(CallerError):
    """The caller took too long to send its body."""

    status = 408
    code = "request_timeout"
    reason = "slow_body"


class BodyTooLargeError(CallerError):
    """The body is over the limit; nothing of it was forwarded."""

    status = 413
    code = "request_too_large"
    reason = "body_too_large"

    @property
    def headers(self) -> dict[str, str]:
        """`Connection: close`: the rest of the body is not read."""
        return {"connection": "close"}


class CapacityError(GatewayError):
    """Nothing is wrong with the request; there is no room for it now."""

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


class QueueFullError(CapacityError):
    """Every slot and every place in the queue is taken."""

    reason = "queue_full"


class QueueTimeoutError(CapacityError):
    """The request waited its time and no slot came free."""

    reason = "queue_timeout"


class DrainingError(CapacityError):
    """This gateway is about to stop and takes nothing new."""

    reason = "draining"


class UpstreamError(GatewayError):
    """The worker did not deliver."""

    status = 502
    type = "server_error"
    code = "bad_gateway"
    reason = "bad_answer"
    outcome = "upstream_error"


class WorkerLostError(UpstreamError):
    """The connection to the worker failed or broke; another try may succeed.

    `sent` tells whether the worker can have begun the request before that.
    """

    code = "worker_lost"
    reason = "lost"

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message, retry_after_seconds=1.0)
        self.sent = sent


class NoHealthyWorkerError(UpstreamError):
    """No worker came up within the time the request may wait."""

    status = 503
    code = "no_healthy_worker"
    reason = "none_healthy"


class WorkerTimeoutError(UpstreamError):
    """The worker stayed silent for too long."""

    status = 504
    code = "timeout"
    reason = "timeout"


class InternalError(GatewayError):
    """Our own fault; the log has the details, the caller gets none."""


class RelayedError(GatewayError):
    """An error that a worker answered, in our words; status and code are the instance's own."""

    reason = "relayed"
    outcome = "caller_error"

    def __init__(  # the fields of the OpenAI error object, one each
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
