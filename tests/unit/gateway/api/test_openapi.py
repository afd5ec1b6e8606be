"""The description is valid OpenAPI, has every route and nothing else, and names every error."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from openapi_spec_validator import OpenAPIV31SpecValidator
from prometheus_client import CollectorRegistry
from starlette.routing import Route

from gateway.api.openapi import describe
from gateway.app import create_app
from gateway.errors import GatewayError, MethodNotAllowedError, RelayedError
from gateway.protocol import ENDPOINTS, Dialect, forwarded_endpoint
from gateway.settings import GatewaySettings
from tests.unit.gateway.application import running

_FORWARDED = forwarded_endpoint("/v1/score")


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    return describe([*ENDPOINTS, _FORWARDED], needs_key=True)


def _operations(description: dict[str, Any]) -> set[tuple[str, str]]:
    return {
        (method.upper(), path)
        for path, operations in description["paths"].items()
        for method in operations
    }


def _routes(app: FastAPI) -> set[tuple[str, str]]:
    routes = [route for route in app.routes if isinstance(route, Route)]
    return {
        (method, route.path.replace(":path", ""))
        for route in routes
        for method in (route.methods or set()) - {"HEAD"}
    }


def _errors(family: type[GatewayError]) -> Iterator[type[GatewayError]]:
    for error in family.__subclasses__():
        yield error
        yield from _errors(error)


def test_it_is_valid_openapi_3_1(description: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(description).validate()


async def test_it_is_served_without_a_key() -> None:
    async with running("http://127.0.0.1:1", ready=False) as gateway:
        answer = await gateway.client.get("/openapi.json")

    assert answer.status_code == 200
    assert answer.json() == describe(
        [*ENDPOINTS, *map(forwarded_endpoint, GatewaySettings().forward_paths)], needs_key=False
    )


def test_it_has_every_route_and_nothing_else() -> None:
    settings = GatewaySettings(forward_paths=("/v1/score",), page=False)
    app = create_app(settings, registry=CollectorRegistry())

    assert _operations(describe([*ENDPOINTS, _FORWARDED], needs_key=False)) == _routes(app)


@pytest.mark.parametrize("endpoint", [*ENDPOINTS, _FORWARDED], ids=lambda endpoint: endpoint.path)
def test_every_error_of_an_endpoint_is_in_it(description: dict[str, Any], endpoint: Any) -> None:
    answers = description["paths"][endpoint.path]["post"]["responses"]
    never = {RelayedError, MethodNotAllowedError}  # any 4xx; another method

    missing = {
        error.__name__
        for error in _errors(GatewayError)
        if error not in never and str(error.status) not in answers
    }

    assert missing == set()
    assert "4XX" in answers


def test_messages_have_anthropics_errors(description: dict[str, Any]) -> None:
    kinds = {
        endpoint.dialect: description["paths"][endpoint.path]["post"]["responses"]["400"]
        for endpoint in ENDPOINTS
    }

    for dialect, answer in kinds.items():
        schema = answer["content"]["application/json"]["schema"]["$ref"]
        assert schema.endswith("/MessagesError") == (dialect is Dialect.MESSAGES)


def test_required_fields_are_required(description: dict[str, Any]) -> None:
    for endpoint in ENDPOINTS:
        operation = description["paths"][endpoint.path]["post"]
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        assert schema["required"] == list(endpoint.required)
        assert ("prediction" in schema["properties"]) == endpoint.takes_prediction


@pytest.mark.parametrize("needs_key", [True, False])
def test_a_key_is_needed_if_there_are_keys(needs_key: bool) -> None:
    found = describe(ENDPOINTS, needs_key=needs_key)["paths"]

    assert bool(found["/v1/chat/completions"]["post"]["security"]) == needs_key
    assert bool(found["/v1/models"]["get"]["security"]) == needs_key
    assert found["/health/live"]["get"]["security"] == []
