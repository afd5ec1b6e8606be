"""Calls from web pages: preflights as Chromium sends them, and what a page may read."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fakes.keys import bearer, issue_key
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT
from tests.integration.connection import connect
from tests.integration.running import running_gateway

_PAGE = "https://chat.example.com"
_CORS = {"origins": [_PAGE]}
_ASKED = (
    "authorization,content-type,x-stainless-arch,x-stainless-lang,x-stainless-os,"
    "x-stainless-package-version,x-stainless-retry-count,x-stainless-runtime,"
    "x-stainless-runtime-version,x-stainless-timeout"
)
_PREFLIGHT = {
    "accept": "*/*",
    "access-control-request-headers": _ASKED,
    "access-control-request-method": "POST",
    "origin": _PAGE,
    "sec-fetch-dest": "empty",
    "sec-fetch-mode": "cors",
    "sec-fetch-site": "cross-site",
}


def _list(headers: Mapping[str, str], name: str) -> list[str]:
    return [item.strip() for item in headers[name].split(",")]


async def test_a_preflight_needs_no_key_and_allows_what_the_sdk_sends(
    worker: FakeWorker, folder: Path
) -> None:
    issue_key(folder / "keys")
    async with running_gateway(worker, keys={"file": folder / "keys"}, cors=_CORS) as gateway:
        answer = await gateway.client.options(CHAT.path, headers=_PREFLIGHT)

    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == _PAGE
    assert "POST" in _list(answer.headers, "access-control-allow-methods")
    allowed = set(_list(answer.headers, "access-control-allow-headers"))
    assert set(_ASKED.split(",")) <= allowed
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("with_key", [True, False], ids=["200", "401"])
async def test_a_page_may_read_answers_and_errors(
    worker: FakeWorker, folder: Path, with_key: bool
) -> None:
    key = issue_key(folder / "keys")
    async with running_gateway(worker, keys={"file": folder / "keys"}, cors=_CORS) as gateway:
        headers = {"origin": _PAGE, **(bearer(key) if with_key else {})}
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(), headers=headers)

    assert answer.status_code == (200 if with_key else 401)
    assert answer.headers["access-control-allow-origin"] == _PAGE
    assert answer.headers["access-control-expose-headers"] == "*"
    assert answer.headers["vary"] == "Origin"
    assert "x-request-id" in answer.headers


async def test_a_stream_arrives_before_its_end(worker: FakeWorker) -> None:
    body = CHAT.body(stream=True, fake={"hang_after_chunks": 1})
    async with running_gateway(worker, cors=_CORS) as gateway, connect(gateway.port) as connection:
        await connection.post(CHAT.path, body, headers=f"origin: {_PAGE}\r\n")
        received = await connection.read_until(b"hello")

    assert f"access-control-allow-origin: {_PAGE}".encode() in received.lower()


@pytest.mark.parametrize(
    ("cors", "origin"),
    [(_CORS, "https://evil.example.com"), ({}, _PAGE)],
    ids=["another-origin", "off"],
)
async def test_other_pages_may_not_call(
    worker: FakeWorker, cors: dict[str, list[str]], origin: str
) -> None:
    async with running_gateway(worker, cors=cors) as gateway:
        preflight = await gateway.client.options(
            CHAT.path, headers={**_PREFLIGHT, "origin": origin}
        )
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(), headers={"origin": origin})

    assert preflight.status_code >= 400
    assert "access-control-allow-origin" not in preflight.headers
    assert "access-control-allow-origin" not in answer.headers


async def test_all_pages_may_call_if_the_setting_says_so(worker: FakeWorker) -> None:
    async with running_gateway(worker, cors={"origins": ["*"]}) as gateway:
        preflight = await gateway.client.options(CHAT.path, headers=_PREFLIGHT)
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(), headers={"origin": _PAGE})

    assert preflight.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-allow-origin"] == "*"
