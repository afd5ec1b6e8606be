"""Write every error as OpenAI's error body, including the errors that FastAPI raises."""

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import Scope

from gateway.errors import (
    GatewayError,
    InvalidRequestError,
    MethodNotAllowedError,
    NotFoundError,
    RelayedError,
    excerpt,
)
from gateway.middleware import RECORD
from gateway.protocol import Dialect, error_body, field_name
from gateway.types import RequestRecord

DIALECT = "specgate.dialect"
"""Key of the endpoint's dialect in the ASGI scope: the format of its errors."""

_MOST_PATH_CHARACTERS = 200


def install_error_handlers(app: FastAPI) -> None:
    """Make `app` answer errors in OpenAI's format."""
    app.add_exception_handler(GatewayError, _answer_gateway_error)
    app.add_exception_handler(HTTPException, _answer_http_exception)
    app.add_exception_handler(RequestValidationError, _answer_validation_error)


def note_error(record: RequestRecord, error: GatewayError) -> None:
    """Write an error into a request's record."""
    record.note_failure(error.status, error.outcome, error.code, error.reason)


def error_response(
    scope: Scope, error: GatewayError, headers: dict[str, str] | None = None
) -> Response:
    """Build the error response and note the error in the request's record."""
    record: RequestRecord = scope[RECORD]
    note_error(record, error)
    dialect = scope.get(DIALECT, Dialect.PLAIN)
    limits = {name.decode(): value.decode() for name, value in record.response_headers}
    return Response(
        error_body(error, dialect, request_id=record.request_id),
        status_code=error.status,
        headers={**limits, **(headers or {}), **error.headers},
        media_type="application/json",
    )


async def _answer_gateway_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, GatewayError)
    return error_response(request.scope, error)


async def _answer_http_exception(request: Request, error: Exception) -> Response:
    """Answer what Starlette's router raises: an unknown path or a method that is not allowed."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        message = f"Unknown path: {request.method} {_path(request)}"
        if (meant := _meant_path(request)) is not None:
            message += f". Did you mean {meant}?"
        return error_response(request.scope, NotFoundError(message))
    if error.status_code == 405:
        message = f"Method {request.method} is not allowed on {_path(request)}."
        return error_response(
            request.scope, MethodNotAllowedError(message), {"Allow": _allowed(request)}
        )
    relayed = RelayedError(
        str(error.detail), status=error.status_code, type="invalid_request_error", code=None
    )
    return error_response(request.scope, relayed)


async def _answer_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = field_name(first["loc"])
    message = first["msg"] if param is None else f"'{param}': {first['msg']}"
    return error_response(request.scope, InvalidRequestError(message, param=param))


def _allowed(request: Request) -> str:
    """List the methods of a path. Starlette lists those of its first route alone."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    found = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for route in found for method in route.methods or ()}))


def _path(request: Request) -> str:
    return excerpt(request.url.path)


def _meant_path(request: Request) -> str | None:
    """A path that exists, if the client's base URL lacks `/v1` or has too much of it; else None."""
    sent: str = request.scope["path"]
    if len(sent) > _MOST_PATH_CHARACTERS:
        return None
    below = "/".join(part for part in sent.rpartition("/v1/")[2].split("/") if part)
    for path in (f"/v1/{below}", f"/{below}"):
        scope = {**request.scope, "path": path}
        if any(route.matches(scope)[0] is not Match.NONE for route in request.app.routes):
            return path
    return None
