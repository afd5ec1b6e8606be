from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from loadtest.kv_cache import fill_cache
from loadtest.load import Client, Server, ServerError

SERVER = Server("m", counts_tokens=False)
EVENTS = (
    b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "length"}]}\n\n'
    b"data: [DONE]\n\n"
)


@asynccontextmanager
async def worker(
    *, size: int | None = 10_000, read: int = 4_000, status: int = 200
) -> AsyncIterator[tuple[Client, list[object]]]:
    """A service whose cache has `size` tokens and that reads `read` of them with each text."""
    asked: list[object] = []

    async def metrics(_: web.Request) -> web.Response:
        told = (
            ""
            if size is None
            else f'vllm:cache_config_info{{a="b",kv_cache_size_tokens="{size}"}} 1'
        )
        counted = f'vllm:prompt_tokens_total{{engine="0"}} {500.0 + read * len(asked)}'
        return web.Response(text=f"# x\n{told}\n{counted}\n")

    async def chat(request: web.Request) -> web.Response:
        asked.append(await request.json())
        if status != 200:
            return web.json_response({"error": {"code": "overloaded"}}, status=status)
        return web.Response(body=EVENTS, content_type="text/event-stream")

    app = web.Application()
    app.add_routes([web.get("/metrics/worker", metrics), web.post("/v1/chat/completions", chat)])
    async with (
        TestServer(app) as server,
        Client(str(server.make_url("/")), limit_seconds=5) as client,
    ):
        yield client, asked


async def test_texts_are_sent_until_the_cache_is_full_once() -> None:
    async with worker() as (client, asked):
        await fill_cache(client, SERVER, seed=0)

    assert len(asked) == 3
    assert {body["max_tokens"] for body in asked} == {1}  # type: ignore[index]  # JSON objects
    assert len({str(body["messages"]) for body in asked}) == 3  # type: ignore[index]  # likewise


@pytest.mark.parametrize(
    ("size", "status", "words"),
    [(None, 200, "does not tell"), (10_000, 503, "overloaded")],
    ids=["silent", "refuses"],
)
async def test_a_worker_that_cannot_be_filled_says_why(
    size: int | None, status: int, words: str
) -> None:
    async with worker(size=size, status=status) as (client, _):
        with pytest.raises(ServerError, match=words):
            await fill_cache(client, SERVER, seed=0)


async def test_a_cache_that_never_fills_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadtest.kv_cache._DOCUMENTS", 4)
    async with worker(read=0) as (client, asked):
        with pytest.raises(ServerError, match="do not fill"):
            await fill_cache(client, SERVER, seed=0)

    assert len(asked) == 4
