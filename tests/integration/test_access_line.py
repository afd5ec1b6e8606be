"""Each request is logged once, when it ends, without any of its prompt or its answer."""

from typing import Any

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, Api, each_api
from tests.integration.connection import connect
from tests.integration.process import GatewayProcess
from tests.integration.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _line(gateway: GatewayProcess, request_id: str) -> dict[str, Any]:
    """The access line of one request."""

    def lines() -> list[dict[str, Any]]:
        return [line for line in gateway.logged("request") if line["request_id"] == request_id]

    await eventually(lambda: lines() != [])
    (line,) = lines()
    return line


async def _stream(gateway: GatewayProcess, request_id: str, **script: Any) -> dict[str, Any]:
    """Stream a chat with the worker's `script`; returns the access line."""
    body = CHAT.body(stream=True, fake=script)
    await gateway.client.post(CHAT.path, json=body, headers={"x-request-id": request_id})
    return await _line(gateway, request_id)


@each_api
async def test_stream_is_logged_after_its_last_byte(
    shared_worker: FakeWorker, shared_process: GatewayProcess, api: Api
) -> None:
    stream_id, later_id = f"stream-{api.name}", f"later-{api.name}"
    script = {"chunks": 10, "stall_after_chunks": 2, "prompt_tokens": 7}
    async with connect(shared_process.port) as connection:
        body = api.body(stream=True, fake=script)
        await connection.post(api.path, body, headers=f"x-request-id: {stream_id}\r\n")
        await connection.read_until(b"hello")
        headers = {"x-request-id": later_id}
        await shared_process.client.post(api.path, content=b"{", headers=headers)
        await _line(shared_process, later_id)

        shared_worker.state.stall = False
        await connection.read_until(api.end)
        line = await _line(shared_process, stream_id)

    ids = [line["request_id"] for line in shared_process.logged("request")]
    assert ids.index(later_id) < ids.index(stream_id)
    assert line["path"] == api.path
    assert line["status"] == 200
    assert line["outcome"] == "completed"
    assert line["model"] == "fake-model"
    assert line["worker"] == f"127.0.0.1:{shared_worker.port}"
    assert line["attempts"] == 1
    assert 0 < line["ttft_seconds"] <= line["duration_seconds"]
    assert (line["tokens_in"], line["tokens_out"]) == (7, 10)
    assert "hello" not in "".join(shared_process.lines).lower()


async def test_line_has_the_acceptance(shared_process: GatewayProcess) -> None:
    line = await _stream(shared_process, "acceptance", drafted=16, accepted=12)

    assert (line["drafted"], line["accepted"]) == (16, 12)
    assert line["acceptance_length"] == (12 + 2) / 2


@pytest.mark.parametrize(
    ("script", "status", "outcome", "code"),
    [
        ({"drop_after_chunks": 2}, 200, "upstream_error", "worker_lost"),
        ({"drop_before_headers": True}, 502, "upstream_error", "worker_lost"),
        ({"status": 400}, 400, "caller_error", None),
    ],
    ids=["broken_stream", "lost", "refused"],
)
async def test_line_of_a_failure_says_what_failed(
    shared_process: GatewayProcess,
    script: dict[str, Any],
    status: int,
    outcome: str,
    code: str | None,
) -> None:
    line = await _stream(shared_process, f"failure-{status}", **script)

    assert (line["status"], line["outcome"], line.get("error_code")) == (status, outcome, code)


async def test_line_of_a_client_that_left(shared_process: GatewayProcess) -> None:
    async with connect(shared_process.port) as connection:
        body = CHAT.body(stream=True, fake={"hang_after_chunks": 2})
        await connection.post(CHAT.path, body, headers="x-request-id: left\r\n")
        await connection.read_until(b"hello")
    line = await _line(shared_process, "left")

    assert (line["status"], line["outcome"], line["reason"]) == (200, "cancelled", "client_gone")


async def test_warnings_of_uvicorn_are_json_too(shared_process: GatewayProcess) -> None:
    async with connect(shared_process.port) as connection:
        await connection.send(b"\x00 no HTTP\r\n\r\n")
        await connection.read_to_end()

    await eventually(lambda: shared_process.logged("Invalid HTTP request received.") != [])
    assert [line for line in shared_process.lines if not line.startswith("{")] == []
