"""Request bodies that are refused while they are still being sent."""

import json
from typing import Any

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT
from tests.integration.connection import connect
from tests.integration.running import running_gateway


def _assert_openai_shape(body: bytes) -> dict[str, Any]:
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return dict(error)


async def test_body_announced_too_large_is_refused_unread(worker: FakeWorker) -> None:
    async with (
        running_gateway(worker, admission={"max_body_bytes": 1000}) as gateway,
        connect(gateway.port) as connection,
    ):
        head = f"POST {CHAT.path} HTTP/1.1\r\nhost: x\r\ncontent-length: 5000000\r\n\r\n"
        await connection.send(head.encode())
        answer = await connection.read_to_end()

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer
    assert _assert_openai_shape(answer.partition(b"\r\n\r\n")[2])["code"] == "request_too_large"


async def test_body_that_comes_too_slowly_is_answered_408(worker: FakeWorker) -> None:
    async with (
        running_gateway(worker, admission={"body_timeout_seconds": 0.1}) as gateway,
        connect(gateway.port) as connection,
    ):
        head = f"POST {CHAT.path} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n"
        await connection.send(head.encode() + b"{")
        answer = await connection.read_until(b'"request_timeout"}}')

    assert answer.startswith(b"HTTP/1.1 408 ")
