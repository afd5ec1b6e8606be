"""`/openapi.json`: an OpenAPI 3.1 description of what this gateway serves; it needs no key.

Paths come from the endpoints, errors from the classes in `errors.py`. A body lists the fields that
the gateway reads; all other fields are the worker's and are allowed.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from fastapi import APIRouter, Response

from gateway import __version__
from gateway.errors import (
    AuthenticationError,
    BodyTooLargeError,
    CallerError,
    GatewayError,
    HeadTooLargeError,
    InternalError,
    InvalidRequestError,
    MethodNotAllowedError,
    ModelNotFoundError,
    NoHealthyWorkerError,
    NotFoundError,
    PermissionDeniedError,
    RelayedError,
    RequestTimeoutError,
    ResponseNotFoundError,
    ResponsesUnavailableError,
    UnsupportedMediaTypeError,
    UnsupportedParameterError,
    UpstreamError,
    WorkerTimeoutError,
)
from gateway.protocol import Dialect, Endpoint, SpeculationMode
from gateway.types import PacingMode

Json = dict[str, Any]

_PATH_PARAMETER = re.compile(r"\{(\w+)\}")

_ON_EVERY_PATH: tuple[type[GatewayError], ...] = (
    InvalidRequestError,
    RequestTimeoutError,
    HeadTooLargeError,
    InternalError,
)
"""The server's own: a request that is no HTTP, a late head, a large head, a failure of ours."""


@dataclass(frozen=True, slots=True)
class _Page:
    """A path that answers without a model.

    Attributes:
        summary: What it shows.
        media_type: Format of the answer.
        errors: Errors beside those of every path.
        unready: Whether it answers 503 with a JSON object while there is no healthy worker.
        needs_key: Whether it needs a key if the gateway has keys.
        status: Of the answer.
        body: Schema of the request's body; None if it has none.
        query: Parameters that may follow the path.
    """

    summary: str
    media_type: str = "application/json"
    errors: tuple[type[GatewayError], ...] = ()
    unready: bool = False
    needs_key: bool = False
    status: str = "200"
    body: Json | None = None
    query: tuple[str, ...] = ()


_READY = _Page("Whether a worker is ready.", unready=True)
_MODEL_ERRORS = (AuthenticationError, NoHealthyWorkerError)
_HEAD_ERRORS = (*_MODEL_ERRORS, ModelNotFoundError, PermissionDeniedError)
_BODY_ERRORS = (BodyTooLargeError, UnsupportedMediaTypeError)
_RESPONSE_ERRORS = (AuthenticationError, ResponseNotFoundError, ResponsesUnavailableError)
_NAME = {"type": ["string", "null"]}
_PAGES: dict[tuple[str, str], _Page] = {
    ("get", "/v1/models"): _Page("The models.", errors=_MODEL_ERRORS, needs_key=True),
    ("get", "/v1/models/{name}"): _Page(
        "One model.", errors=(*_MODEL_ERRORS, ModelNotFoundError), needs_key=True
    ),
    ("get", "/v1/responses/{id}"): _Page(
        "A stored response.",
        errors=(*_RESPONSE_ERRORS, UnsupportedParameterError),
        needs_key=True,
        query=("stream",),
    ),
    ("delete", "/v1/responses/{id}"): _Page(
        "Delete a stored response.", errors=_RESPONSE_ERRORS, needs_key=True
    ),
    ("get", "/v1/responses/{id}/input_items"): _Page(
        "The items that a request added to its conversation.",
        errors=_RESPONSE_ERRORS,
        needs_key=True,
        query=("after", "limit", "order"),
    ),
    ("get", "/health"): _READY,
    ("get", "/health/ready"): _READY,
    ("get", "/ping"): _READY,
    ("post", "/ping"): _READY,
    ("get", "/health/live"): _Page("Whether the process lives."),
    ("get", "/health/workers"): _Page("The state of each worker."),
    ("get", "/version"): _Page("The version of the gateway."),
    ("get", "/speculation"): _Page("What each worker reports about its drafts."),
    ("get", "/live"): _Page("Load, latency, drafts and workers in the last quarter of an hour."),
    ("get", "/heads"): _Page(
        "The draft heads of the workers.", errors=_HEAD_ERRORS, needs_key=True, query=("model",)
    ),
    ("post", "/heads"): _Page(
        "Load a draft head; the answer has each worker's id of the command.",
        errors=(*_HEAD_ERRORS, *_BODY_ERRORS),
        needs_key=True,
        status="202",
        body={
            "type": "object",
            "properties": {"folder": {"type": "string"}, "model": _NAME},
            "required": ["folder"],
            "additionalProperties": False,
        },
    ),
    ("delete", "/heads"): _Page(
        "Unload the draft heads.",
        errors=_HEAD_ERRORS,
        needs_key=True,
        status="202",
        query=("model",),
    ),
    ("post", "/heads/forget"): _Page(
        "Drop the heads beside the serving ones.",
        errors=(*_HEAD_ERRORS, *_BODY_ERRORS),
        needs_key=True,
        status="202",
        body={
            "type": "object",
            "properties": {"model": _NAME},
            "additionalProperties": False,
        },
    ),
    ("delete", "/heads/traffic"): _Page(
        "Delete the traffic that was recorded of a tenant, or of all, for heads to learn from.",
        errors=_HEAD_ERRORS,
        needs_key=True,
        status="202",
        query=("tenant", "model"),
    ),
    ("post", "/canary/open"): _Page(
        "Let sources draft again that the canary shut, for a model or for all.",
        errors=(AuthenticationError, PermissionDeniedError),
        needs_key=True,
        query=("model",),
    ),
    ("get", "/metrics"): _Page("Metrics for Prometheus.", media_type="text/plain"),
    ("get", "/metrics/worker"): _Page(
        "Metrics of the worker that the gateway started.",
        media_type="text/plain",
        errors=(NotFoundError, UpstreamError, WorkerTimeoutError),
    ),
    ("get", "/openapi.json"): _Page("This description."),
}


def openapi_routes(endpoints: Sequence[Endpoint], *, needs_key: bool) -> APIRouter:
    """The route.

    Args:
        endpoints: The worker's endpoints that the gateway serves.
        needs_key: Whether requests need a key.
    """
    router = APIRouter()
    body = json.dumps(describe(endpoints, needs_key=needs_key)).encode()

    @router.get("/openapi.json")
    async def show_description() -> Response:
        return Response(body, media_type="application/json")

    return router


def describe(endpoints: Sequence[Endpoint], *, needs_key: bool) -> Json:
    """The description. Source: OpenAPI Specification 3.1."""
    security: list[Json] = [{"bearer": []}, {"x-api-key": []}] if needs_key else []
    paths: dict[str, Json] = {}
    for endpoint in endpoints:
        paths[endpoint.path] = {"post": _inference(endpoint, security)}
    for (method, path), page in _PAGES.items():
        paths.setdefault(path, {})[method] = _page(path, page, security)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "specgate",
            "version": __version__,
            "description": "OpenAI's API in front of vLLM. Fields that are not described are the "
            "worker's and are passed on unchanged.",
        },
        "paths": paths,
        "components": {
            "schemas": _SCHEMAS,
            "headers": _HEADERS,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def _inference(endpoint: Endpoint, security: list[Json]) -> Json:
    header = {"name": "X-Pacing", "in": "header", "schema": {"enum": list(get_args(PacingMode))}}
    content = {"application/json": {"schema": {"type": "object"}}}
    if endpoint.dialect is not Dialect.PLAIN:
        content["text/event-stream"] = {}  # OpenAPI 3.1 has no schema for events
    errors = set(_descendants(GatewayError)) - {RelayedError, MethodNotAllowedError}
    relayed = {
        "description": "The worker refused the request.",
        "content": _error_content(endpoint.dialect),
    }
    return {
        "summary": f"POST {endpoint.path} of the worker.",
        "parameters": [header],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _body_schema(endpoint)}},
        },
        "responses": {
            "200": {
                "description": "The worker's answer; events if `stream` is true.",
                "headers": _refs("headers", _HEADERS.keys() - {"retry-after"}),
                "content": content,
            },
            **_error_responses(errors, endpoint.dialect),
            "4XX": relayed,
        },
        "security": security,
    }


def _page(path: str, page: _Page, security: list[Json]) -> Json:
    schema = {"type": "object" if page.media_type == "application/json" else "string"}
    content = {page.media_type: {"schema": schema}}
    answers: Json = {page.status: {"description": page.summary, "content": content}}
    if page.unready:
        answers["503"] = {"description": "No worker is ready.", "content": content}
    in_path = [
        {"name": one, "in": "path", "required": True, "schema": {"type": "string"}}
        for one in _PATH_PARAMETER.findall(path)
    ]
    query = [{"name": one, "in": "query", "schema": {"type": "string"}} for one in page.query]
    body = {"content": {"application/json": {"schema": page.body}}}
    return {
        "summary": page.summary,
        "parameters": [*in_path, *query],
        **({} if page.body is None else {"requestBody": body}),
        "responses": {
            **answers,
            **_error_responses({*_ON_EVERY_PATH, *page.errors}, Dialect.PLAIN),
        },
        "security": security if page.needs_key else [],
    }


def _error_responses(errors: Iterable[type[GatewayError]], dialect: Dialect) -> Json:
    """One response for each status, described by the errors that have it."""
    by_status: dict[int, list[str]] = {}
    for error in sorted(errors, key=lambda error: error.__name__):
        if error not in (GatewayError, CallerError):  # families: never raised themselves
            first_line = (error.__doc__ or "").partition("\n")[0]
            by_status.setdefault(error.status, []).append(first_line)
    return {
        str(status): {
            "description": " ".join(lines),
            "headers": _refs("headers", _HEADERS),
            "content": _error_content(dialect),
        }
        for status, lines in sorted(by_status.items())
    }


def _error_content(dialect: Dialect) -> Json:
    name = "MessagesError" if dialect is Dialect.MESSAGES else "Error"
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _refs(kind: str, names: Iterable[str]) -> Json:
    return {name: {"$ref": f"#/components/{kind}/{name}"} for name in sorted(names)}


def _descendants(error: type[GatewayError]) -> Iterator[type[GatewayError]]:
    for below in error.__subclasses__():
        yield below
        yield from _descendants(below)


def _or_null(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


def _body_schema(endpoint: Endpoint) -> Json:
    """The fields that the gateway reads on this endpoint."""
    fields = dict(_FIELDS)
    if endpoint.streams_usage_chunk:
        fields["stream_options"] = _or_null(
            _object(include_usage={"type": "boolean"}, continuous_usage_stats={"type": "boolean"})
        )
    if endpoint.takes_prediction:
        fields["prediction"] = _or_null({"$ref": "#/components/schemas/Prediction"})
    if endpoint.dialect is Dialect.RESPONSES:
        fields["previous_response_id"] = _or_null({"type": "string"})
        fields["store"] = fields["background"] = _or_null({"type": "boolean"})
    if endpoint.takes_xargs:
        fields["vllm_xargs"] = _or_null({"type": "object"})
    if endpoint.takes_salt:
        fields["cache_salt"] = _or_null({"type": "string"})
    for name in endpoint.required:
        fields[name] = {"not": {"type": "null"}}
    return {"type": "object", "properties": fields, "required": list(endpoint.required)}


_COUNT = _or_null({"type": "integer"})
_FIELDS: Json = {
    "model": _or_null({"type": "string"}),
    "stream": _or_null({"type": "boolean"}),
    "n": _COUNT,
    "max_tokens": {"description": "Counted in the key's limit if it is an integer."},
    "max_completion_tokens": {"description": "As `max_tokens`."},
    "max_output_tokens": {"description": "As `max_tokens`."},
    "speculation": _or_null({"$ref": "#/components/schemas/Speculation"}),
    "pacing": _or_null({"enum": list(get_args(PacingMode))}),
}
_ERROR_OBJECT = {
    "type": "object",
    "properties": {
        "message": {"type": "string"},
        "type": {"type": "string"},
        "param": {"type": ["string", "null"]},
        "code": {"type": ["string", "null"]},
    },
    "required": ["message", "type"],
}
_SCHEMAS: Json = {
    "Error": {"type": "object", "properties": {"error": _ERROR_OBJECT}, "required": ["error"]},
    "MessagesError": {
        "type": "object",
        "properties": {"type": {"const": "error"}, "error": _ERROR_OBJECT},
        "required": ["type", "error"],
    },
    "Prediction": {
        "type": "object",
        "properties": {
            "type": {"const": "content"},
            "content": {
                "anyOf": [
                    {"type": "string"},
                    {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
                            "required": ["type", "text"],
                        },
                    },
                ]
            },
        },
        "required": ["type", "content"],
    },
    "Speculation": {
        "type": "object",
        "properties": {
            "mode": {"enum": list(get_args(SpeculationMode))},
            "max_draft_tokens": {"type": ["integer", "null"], "minimum": 0, "maximum": 256},
            "trace": {
                "type": "boolean",
                "description": "Name the origin of each token in `speculation.trace` of the answer "
                "or of each chunk: `[source, code points of text that it completes]`. On chat and "
                "text completions with one choice; the sources are target, suffix, head, native "
                "and prediction.",
            },
            "canary": {
                "type": "boolean",
                "description": "Whether the gateway may ask again without drafts, to compare.",
            },
        },
        "additionalProperties": False,
    },
}
_HEADERS: Json = {
    "x-request-id": {
        "description": "The request's id, the caller's own if it sent one.",
        "schema": {"type": "string"},
    },
    "retry-after": {
        "description": "Seconds after which to try again.",
        "schema": {"type": "integer", "minimum": 1},
    },
    **{
        f"x-ratelimit-{what}-{unit}": {
            "description": f"The key's limit of {unit} a minute: {what}.",
            "schema": {"type": "string"},
        }
        for what in ("limit", "remaining", "reset")
        for unit in ("requests", "tokens")
    },
}
