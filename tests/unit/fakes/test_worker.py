"""The worker as a whole: what it records, its switches, its life as a server."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest

from tests.fakes.script import Script
from tests.fakes.worker import FakeWorker
from tests.unit.fakes.calls import CHAT, chat, post, writes_of


@pytest.mark.parametrize("script", [{"hang_before_headers": True}, {"hang_after_chunks": 1}])
async def test_peer_that_leaves_is_recorded_as_an_abort(
    worker: FakeWorker, script: dict[str, Any]
) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(writes_of(worker, chat(**script)), 0.2)
    left_at = time.monotonic()
    await asyncio.sleep(0.05)

    request = worker.requests[-1]
    assert request.aborted
    assert not request.finished
    assert request.aborted_at is not None
    assert abs(request.aborted_at - left_at) < 0.2
    assert worker.active == 0


async def test_reader_that_stops_reading_stops_the_stream(worker: FakeWorker) -> None:
    _unread, writer = await asyncio.open_connection("127.0.0.1", worker.port, limit=1024)
    body = chat(text=["x" * 10_000], chunks=5_000)
    writer.write(post(body))
    await asyncio.sleep(0.5)
    sent = worker.requests[-1].chunks_sent
    await asyncio.sleep(0.1)

    assert 0 < worker.requests[-1].chunks_sent == sent < 5_000
    writer.close()


async def test_requests_are_recorded_as_they_came(
    worker: FakeWorker, client: httpx.AsyncClient
) -> None:
    body = chat(stream=False)

    await client.post(CHAT, content=body, headers={"X-Request-Id": "abc"})

    [request] = worker.requests
    assert (request.method, request.path, request.body) == ("POST", CHAT, body)
    assert request.headers["x-request-id"] == "abc"
    assert request.finished


async def test_answers_on_one_connection_keep_their_order(worker: FakeWorker) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", worker.port)
    slow = chat(stream=False, text=["slow"], delay_headers_seconds=0.05)
    quick = chat(stream=False, text=["quick"])
    for body in (slow, quick):
        writer.write(post(body))
    answers = await reader.readuntil(b'"content":"quick"')
    writer.close()

    assert answers.index(b'"content":"slow"') < answers.index(b'"content":"quick"')


async def test_health_follows_the_switch(worker: FakeWorker, client: httpx.AsyncClient) -> None:
    well = await client.get("/health")
    worker.healthy = False
    ill = await client.get("/health")

    assert (well.status_code, ill.status_code) == (200, 503)


async def test_stalled_worker_runs_without_iterations(
    worker: FakeWorker, client: httpx.AsyncClient
) -> None:
    worker.state.stall = True
    running = asyncio.create_task(client.post(CHAT, content=chat()))
    await asyncio.sleep(0.05)

    first = (await client.get("/metrics")).text
    second = (await client.get("/metrics")).text
    worker.state.stall = False

    assert first == second
    assert 'vllm:num_requests_running{engine="0",model_name="fake-model"} 1.0' in first
    assert 'vllm:iteration_tokens_total_count{engine="0",model_name="fake-model"} 0.0' in first
    assert (await running).status_code == 200


async def test_busy_worker_keeps_iterating(worker: FakeWorker, client: httpx.AsyncClient) -> None:
    running = asyncio.create_task(client.post(CHAT, content=chat(hang_before_headers=True)))
    await asyncio.sleep(0.05)

    first = (await client.get("/metrics")).text
    second = (await client.get("/metrics")).text
    running.cancel()

    count = 'vllm:iteration_tokens_total_count{engine="0",model_name="fake-model"}'
    assert f"{count} 1.0" in first
    assert f"{count} 2.0" in second


async def test_failed_connections_are_reset_as_often_as_asked(worker: FakeWorker) -> None:
    worker.state.fail_next_connections = 1
    async with httpx.AsyncClient(base_url=worker.url) as client:
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await client.get("/version")

        assert (await client.get("/version")).json() == {"version": "0.32.0"}


async def test_answers_are_dropped_as_often_as_asked(
    worker: FakeWorker, client: httpx.AsyncClient
) -> None:
    worker.state.drop_next_answers = 1

    assert (await client.get("/version")).status_code == 200
    with pytest.raises(httpx.RemoteProtocolError):
        await client.post(CHAT, content=chat())
    assert (await client.post(CHAT, content=chat())).status_code == 200


async def test_the_workers_script_is_played_instead_of_the_requests_own(
    worker: FakeWorker, client: httpx.AsyncClient
) -> None:
    worker.state.script = Script(status=307, headers={"location": "/other"})
    answer = await client.post(CHAT, content=chat())

    assert (answer.status_code, answer.headers["location"]) == (307, "/other")
    worker.state.script = None
    assert (await client.post(CHAT, content=chat())).status_code == 200


async def test_requests_are_counted_by_path(worker: FakeWorker, client: httpx.AsyncClient) -> None:
    for path in ("/version", "/health", "/version"):
        await client.get(path)

    assert worker.state.paths == {"/version": 2, "/health": 1}


async def test_tokenize_requests_are_recorded_apart(
    worker: FakeWorker, client: httpx.AsyncClient
) -> None:
    await client.post("/tokenize", json={"prompt": "a"})

    assert [request.json() for request in worker.tokenize_requests] == [{"prompt": "a"}]
    assert worker.requests == []


@pytest.mark.parametrize(
    ("tokenizing", "status", "body"),
    [
        ("fails", 500, b'{"error":{'),
        ("garbled", 200, b'{"tokens":[1,'),
        ("odd", 200, b'{"count":1,"tokens":["a"]}'),
    ],
)
async def test_tokenize_fails_as_the_switch_says(
    client: httpx.AsyncClient, tokenizing: str, status: int, body: bytes
) -> None:
    await client.post("/_fake/state", json={"tokenizing": tokenizing})

    answer = await client.post("/tokenize", json={"prompt": "a"})

    assert answer.status_code == status
    assert answer.content.startswith(body)


async def test_tokenize_drops_or_hangs_as_the_switch_says(
    worker: FakeWorker, client: httpx.AsyncClient
) -> None:
    worker.state.tokenizing = "drops"
    with pytest.raises(httpx.RemoteProtocolError):
        await client.post("/tokenize", json={"prompt": "a"})

    worker.state.tokenizing = "hangs"
    with pytest.raises(httpx.ReadTimeout):
        await client.post("/tokenize", json={"prompt": "a"}, timeout=0.1)


async def test_pages_answer_like_vllm(worker: FakeWorker, client: httpx.AsyncClient) -> None:
    worker.state.models = ["a", "b"]

    models = (await client.get("/v1/models")).json()
    tokens = (await client.post("/tokenize", json={"prompt": "hé"})).json()
    text = (await client.post("/detokenize", json={"tokens": tokens["tokens"]})).json()
    load = (await client.get("/load")).json()

    assert [card["id"] for card in models["data"]] == ["a", "b"]
    assert tokens["count"] == 3
    assert text == {"prompt": "hé"}
    assert load == {"server_load": 0}


async def test_stop_cuts_streams_and_start_takes_the_same_port(worker: FakeWorker) -> None:
    port = worker.port
    cut = asyncio.create_task(writes_of(worker, chat(hang_after_chunks=1)))
    await asyncio.sleep(0.1)

    await worker.stop()
    _, error = await cut
    await worker.start()

    assert isinstance(error, aiohttp.ClientPayloadError)
    assert not worker.requests[-1].aborted
    assert worker.port == port
    assert (await writes_of(worker, chat(chunks=1)))[1] is None


async def test_unix_socket_serves_the_same(tmp_path: Path) -> None:
    path = tmp_path / "worker.sock"
    transport = httpx.AsyncHTTPTransport(uds=str(path))

    async with FakeWorker(uds=path) as worker, httpx.AsyncClient(transport=transport) as client:
        answer = await client.get(worker.url + "/version")

    assert answer.json() == {"version": "0.32.0"}
    assert not path.exists()


async def test_control_endpoints_change_and_show(client: httpx.AsyncClient) -> None:
    changed = await client.post("/_fake/state", json={"models": ["m"], "health_status": 500})
    refused = await client.post("/_fake/state", json={"modles": ["m"]})
    await client.post(CHAT, json={"messages": []})
    recorded = (await client.get("/_fake/requests")).json()["requests"]
    forgotten = (await client.request("DELETE", "/_fake/requests")).json()["requests"]

    assert changed.json()["models"] == ["m"]
    assert refused.status_code == 400
    assert [r["path"] for r in recorded] == [CHAT]
    assert forgotten == []


async def test_process_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    path = tmp_path / "worker.sock"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fakes.worker", "--uds", str(path)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout is not None
    ready = await asyncio.wait_for(process.stdout.readline(), 20)
    transport = httpx.AsyncHTTPTransport(uds=str(path))

    async with httpx.AsyncClient(transport=transport) as client:
        answer = await client.post(f"http://worker{CHAT}", json={"messages": []})
    process.terminate()
    _, _ = await asyncio.wait_for(process.communicate(), 10)

    assert ready == f"fake worker ready at {path}\n".encode()
    assert answer.status_code == 200
    assert process.returncode == 0
