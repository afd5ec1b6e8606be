"""One access line a request, at its true end, with what happened and nothing of what was said."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, Api, each_api
from tests.integration.process import GatewayProcess, gateway_process
from tests.integration.waiting import eventually
from tests.integration.wire import wire_to


async def _line(gateway: GatewayProcess) -> dict[str, Any]:
    """The one access line, once it is there."""
    await eventually(lambda: gateway.logged("request") != [])
    await asyncio.sleep(0.05)
    (line,) = gateway.logged("request")
    return line


@each_api
async def test_line_of_a_stream_is_written_at_its_end(
    worker: FakeWorker, folder: Path, api: Api
) -> None:
    script = {"chunks": 10, "gap_seconds": 0.03, "prompt_tokens": 7}
    async with gateway_process(folder, worker) as gateway:
        headers = {"x-request-id": "the-id"}
        body = api.body(stream=True, fake=script)
        await gateway.client.post(api.path, json=body, headers=headers)
        line = await _line(gateway)

    assert line["request_id"] == "the-id"
    assert line["path"] == api.path
    assert line["status"] == 200
    assert line["outcome"] == "completed"
    assert line["model"] == "fake-model"
    assert line["worker"] == f"127.0.0.1:{worker.port}"
    assert line["attempts"] == 1
    assert line["duration_seconds"] >= 9 * 0.03
    assert 0 < line["ttft_seconds"] < line["duration_seconds"]
    assert (line["tokens_in"], line["tokens_out"]) == (7, 10)
    assert "hello" not in "".join(gateway.lines).lower()


async def test_line_tells_acceptance(worker: FakeWorker, folder: Path) -> None:
    script = {"drafted": 16, "accepted": 12}
    async with gateway_process(folder, worker) as gateway:
        await gateway.client.post(CHAT.path, json=CHAT.body(stream=True, fake=script))
        line = await _line(gateway)

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
    worker: FakeWorker,
    folder: Path,
    script: dict[str, Any],
    status: int,
    outcome: str,
    code: str | None,
) -> None:
    async with gateway_process(folder, worker) as gateway:
        await gateway.client.post(CHAT.path, json=CHAT.body(stream=True, fake=script))
        line = await _line(gateway)

    assert (line["status"], line["outcome"], line.get("error_code")) == (status, outcome, code)


async def test_line_of_a_client_that_left(worker: FakeWorker, folder: Path) -> None:
    script = {"hang_after_chunks": 2}
    async with gateway_process(folder, worker) as gateway:
        async with wire_to(gateway.port) as wire:
            await wire.post(CHAT.path, CHAT.body(stream=True, fake=script))
            await wire.read_until(b"hello")
        line = await _line(gateway)

    assert (line["status"], line["outcome"], line["reason"]) == (200, "cancelled", "client_gone")


async def test_lines_of_every_library_are_json(worker: FakeWorker, folder: Path) -> None:
    async with gateway_process(folder, worker) as gateway:
        async with wire_to(gateway.port) as wire:
            await wire.send(b"\x00 no HTTP\r\n\r\n")
            await wire.read_to_end()
        await gateway.client.post(CHAT.path, content=b"{")
        await _line(gateway)

    assert gateway.logged("Invalid HTTP request received.")  # uvicorn's
    assert [line for line in gateway.lines if not line.startswith("{")] == []
