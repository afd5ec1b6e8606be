"""The page is served with its headers, is small, and holds nothing that its policy forbids."""

import re
from pathlib import Path

import pytest

from gateway.api.page import page_routes
from tests.unit.gateway.application import running

FOLDER = Path(__file__).parents[4] / "gateway" / "page"
UNREACHABLE = "http://127.0.0.1:1"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
MOST_BYTES = 100_000


def source(suffix: str) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob(f"*{suffix}")}


async def test_the_page_and_its_files_have_a_strict_policy() -> None:
    paths = [route.path for route in page_routes()]

    async with running(UNREACHABLE, ready=False) as gateway:
        answers = {path: await gateway.client.get(path) for path in paths}

    assert {"/", "/page/main.js", "/page/style.css", "/page/icon.svg"} <= answers.keys()
    for answer in answers.values():
        assert answer.status_code == 200
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/page/style.css", "text/css; charset=utf-8"),
        ("/page/main.js", "text/javascript; charset=utf-8"),
        ("/page/icon.svg", "image/svg+xml"),
    ],
)
async def test_files_have_their_media_types(path: str, media_type: str) -> None:
    async with running(UNREACHABLE, ready=False) as gateway:
        answer = await gateway.client.get(path)
        head = await gateway.client.head(path)

    assert answer.headers["content-type"] == media_type
    assert head.status_code == 200


async def test_a_file_that_the_browser_has_is_not_sent_again() -> None:
    async with running(UNREACHABLE, ready=False) as gateway:
        first = await gateway.client.get("/")
        tags = f'"other", {first.headers["etag"]}'
        second = await gateway.client.get("/", headers={"if-none-match": tags})
        third = await gateway.client.get("/", headers={"if-none-match": '"other"'})

    assert (second.status_code, second.content) == (304, b"")
    assert second.headers["etag"] == first.headers["etag"]
    assert third.status_code == 200


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip", "gzip"),
        ("br, GZIP;q=0.5", "gzip"),
        ("gzip;q=0", None),
        ("gzip; q=0.0, br", None),
        ("identity", None),
    ],
)
async def test_files_are_compressed_for_those_who_accept_it(
    accepted: str, coding: str | None
) -> None:
    async with running(UNREACHABLE, ready=False) as gateway:
        answer = await gateway.client.get("/page/style.css", headers={"accept-encoding": accepted})

    assert answer.headers.get("content-encoding") == coding
    assert answer.headers["vary"] == "accept-encoding"
    assert answer.text == (FOLDER / "style.css").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", ["/", "/page/main.js"])
async def test_without_the_setting_there_is_no_page(path: str) -> None:
    async with running(UNREACHABLE, ready=False, page=False) as gateway:
        answer = await gateway.client.get(path)

    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


async def test_an_unknown_file_is_404() -> None:
    async with running(UNREACHABLE, ready=False) as gateway:
        answer = await gateway.client.get("/page/__init__.py")

    assert answer.status_code == 404


def test_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < MOST_BYTES


def test_nothing_is_inline_and_nothing_comes_from_elsewhere() -> None:
    (page,) = source(".html").values()

    assert re.findall(r"<style|style=|\son\w+=|javascript:", page) == []
    assert re.findall(r"<script(?![^>]*\ssrc=)", page) == []
    addresses = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert addresses
    assert all(address.startswith(("page/", "#")) for address in addresses)
    assert "url(" not in source(".css")["style.css"]
    assert "@import" not in source(".css")["style.css"]


def test_every_module_is_loaded_at_once() -> None:
    (page,) = source(".html").values()

    loaded = re.findall(r'"page/(\w+\.js)"', page)
    assert sorted(loaded) == sorted(source(".js"))


def test_no_module_parses_html_or_runs_text() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc"
        r"|DOMParser|createContextualFragment|setHTML|localStorage|document\.cookie"
    )

    found = [name for name, text in source(".js").items() if forbidden.search(text)]

    assert len(source(".js")) > 10
    assert found == []


def test_addresses_are_relative_so_that_a_proxy_may_add_a_prefix() -> None:
    asked = [
        address
        for text in source(".js").values()
        for address in re.findall(r'(?:getJson|fetch|import)\(?\s*"([^"]+)"', text)
    ]

    assert {"v1/models", "live"} <= set(asked)
    assert not any(address.startswith("/") or "://" in address for address in asked)
