from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.exceptions import HTTPException

from gateway.api import install_error_handlers
from gateway.errors import QueueFullError
from gateway.middleware import Observe
from gateway.types import RequestRecord


class Asked:
    """A small app with our handlers, and the records of what it was asked."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []
        app = FastAPI()
        app.router.redirect_slashes = False
        install_error_handlers(app)
        app.get("/full")(self._full)
        app.delete("/full")(self._full)
        app.get("/typed")(self._typed)
        app.post("/v1/chat/completions")(self._full)
        app.get("/v1/models/{name:path}")(self._full)
        app.get("/teapot")(self._teapot)
        observed = Observe(
            app, endpoints=[], quiet=[], count=lambda record, now: self.records.append(record)
        )
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(observed), base_url="http://gateway"
        )

    async def _full(self) -> None:
        raise QueueFullError("Full.", retry_after_seconds=2)

    async def _typed(self, count: int) -> int:
        return count

    async def _teapot(self) -> None:
        raise HTTPException(418, "short and stout")


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    made = Asked()
    yield made
    await made.client.aclose()


@pytest.mark.parametrize(
    ("method", "path", "status", "expected"),
    [
        ("GET", "/full", 503, {"message": "Full.", "type": "server_error", "code": "overloaded"}),
        ("GET", "/none", 404, {"message": "Unknown path: GET /none", "code": "not_found"}),
        (
            "POST",
            "/full",
            405,
            {"message": "Method POST is not allowed on /full.", "code": "method_not_allowed"},
        ),
        ("GET", "/typed?count=x", 400, {"param": "query.count", "type": "invalid_request_error"}),
        ("GET", "/typed", 400, {"param": "query.count"}),
        ("GET", "/teapot", 418, {"message": "short and stout", "code": None}),
    ],
)
async def test_every_error_has_openais_shape(
    asked: Asked, method: str, path: str, status: int, expected: dict[str, Any]
) -> None:
    answer = await asked.client.request(method, path)

    error = answer.json()["error"]
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert set(error) == {"message", "type", "param", "code"}
    assert error | expected == error
    assert asked.records[0].status == status


async def test_errors_have_their_headers(asked: Asked) -> None:
    full = await asked.client.get("/full")
    wrong = await asked.client.post("/full")

    assert full.headers["retry-after"] == "2"
    assert wrong.headers["allow"] == "DELETE, GET"


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("//v1//chat/completions", "/v1/chat/completions"),
        ("/api/v1/chat/completions", "/v1/chat/completions"),
        ("/models/org/model", "/v1/models/org/model"),
        ("/v1/full", "/full"),
    ],
)
async def test_an_unknown_path_that_exists_elsewhere_is_explained(
    asked: Asked, path: str, meant: str
) -> None:
    answer = await asked.client.post(f"http://gateway{path}")

    assert answer.status_code == 404
    assert answer.json()["error"]["message"].endswith(f". Did you mean {meant}?")


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/", "/chat", "/" + "v1/" * 1000 + "full"])
async def test_nothing_is_proposed_for_other_paths(asked: Asked, path: str) -> None:
    answer = await asked.client.get(path)

    assert answer.status_code == 404
    assert "Did you mean" not in answer.json()["error"]["message"]


async def test_a_long_path_is_cut(asked: Asked) -> None:
    answer = await asked.client.get("/" + "x" * 5000)

    assert len(answer.json()["error"]["message"]) < 250


async def test_an_error_is_recorded(asked: Asked) -> None:
    await asked.client.get("/full")

    (record,) = asked.records
    assert (record.outcome, record.reason) == ("rejected", "queue_full")
    assert record.error_code == "overloaded"
