"""Calls to a fake worker, and what came back, as the tests of this folder need them."""

import json
from typing import Any

import aiohttp

from tests.fakes.worker import FakeWorker

CHAT = "/v1/chat/completions"


def chat(*, stream: bool = True, usage: dict[str, bool] | None = None, **script: object) -> bytes:
    body: dict[str, Any] = {"model": "fake-model", "messages": [], "stream": stream, "fake": script}
    if usage is not None:
        body["stream_options"] = usage
    return json.dumps(body).encode()


async def writes_of(worker: FakeWorker, body: bytes) -> tuple[list[bytes], Exception | None]:
    """The pieces of an answer as they arrived, and how it broke."""
    pieces: list[bytes] = []
    async with aiohttp.ClientSession() as session:
        try:
            async with session.post(worker.url + CHAT, data=body) as response:
                async for piece, _ in response.content.iter_chunks():
                    pieces.append(piece)
        except aiohttp.ClientError as error:
            return pieces, error
    return pieces, None


def post(body: bytes) -> bytes:
    return f"POST {CHAT} HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def data_of(stream: bytes) -> list[dict[str, Any]]:
    frames = [f for f in stream.decode().split("\n\n") if f]
    lines = [line[6:] for f in frames for line in f.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]
