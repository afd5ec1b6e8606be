"""The fake worker keeps its word: what a script asks for is what a client sees on the wire."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest

from tests.fakes.worker import FakeWorker

CHAT = "/v1/chat/completions"
STREAMING_BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": []},
    "/v1/completions": {"prompt": "x"},
    "/v1/responses": {"input": "x"},
    "/v1/messages": {"messages": []},
}


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as started:
        yield started


@pytest.fixture
async def client(worker: FakeWorker) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=worker.url, timeout=5.0) as opened:
        yield opened


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


async def test_unary_chat_has_vllms_fields(client: httpx.AsyncClient) -> None:
    answer = await client.post(CHAT, content=chat(stream=False, chunks=3, drafted=11, accepted=9))

    body = answer.json()
    assert body["choices"][0]["message"]["content"] == " hello hello hello"
    assert body["usage"]["completion_tokens"] == 3
    figures = body["metrics"]["speculative_decoding"]
    assert figures["per_step_drafted"] == [8, 3]
    assert figures["per_step_accepted"] == [8, 1]
    assert figures["mean_acceptance_length"] == 5.5


async def test_unary_answers_have_ids_of_their_own(client: httpx.AsyncClient) -> None:
    first = await client.post(CHAT, json={"messages": []})
    second = await client.post(CHAT, json={"messages": []})

    assert first.json()["id"] != second.json()["id"]


@pytest.mark.parametrize(
    ("path", "end"),
    [
        (CHAT, b"data: [DONE]\n\n"),
        ("/v1/completions", b"data: [DONE]\n\n"),
        ("/v1/responses", b'"type":"response.completed"}\n\n'),
        ("/v1/messages", b'{"type":"message_stop"}\n\n'),
    ],
)
async def test_stream_ends_as_its_endpoint_has_it(
    client: httpx.AsyncClient, path: str, end: bytes
) -> None:
    body = STREAMING_BODIES[path] | {"stream": True, "fake": {"text": ["a", "b"]}}

    answer = await client.post(path, json=body)

    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.content.endswith(end)


@pytest.mark.parametrize("path", STREAMING_BODIES)
async def test_no_done_leaves_out_the_last_frame_alone(
    client: httpx.AsyncClient, path: str
) -> None:
    body = STREAMING_BODIES[path] | {"stream": True}

    whole = await client.post(path, json=body)
    short = await client.post(path, json=body | {"fake": {"no_done": True}})

    assert short.content.count(b"\n\n") == whole.content.count(b"\n\n") - 1


async def test_usage_chunk_comes_only_when_asked_for(client: httpx.AsyncClient) -> None:
    without = await client.post(CHAT, content=chat(chunks=2))
    with_usage = await client.post(CHAT, content=chat(chunks=2, usage={"include_usage": True}))

    assert all("usage" not in chunk for chunk in data_of(without.content))
    last = data_of(with_usage.content)[-1]
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 7, "total_tokens": 9, "completion_tokens": 2}
    assert "speculative_decoding" in last["metrics"]


async def test_continuous_usage_counts_the_tokens_of_each_chunk(client: httpx.AsyncClient) -> None:
    usage = {"include_usage": True, "continuous_usage_stats": True}

    answer = await client.post(CHAT, content=chat(chunks=3, tokens_per_chunk=4, usage=usage))

    counts = [chunk["usage"]["completion_tokens"] for chunk in data_of(answer.content)]
    assert counts == [0, 4, 8, 12, 12]


async def test_reported_steps_are_passed_on_as_scripted(client: httpx.AsyncClient) -> None:
    script: dict[str, Any] = {"per_step_drafted": [65540, 3], "per_step_accepted": [2, 3]}

    answer = await client.post(CHAT, content=chat(stream=False, **script))

    figures = answer.json()["metrics"]["speculative_decoding"]
    assert figures["per_step_drafted"] == [65540, 3]
    assert figures["num_spec_steps"] == 2


async def test_worker_without_a_drafter_reports_no_figures(client: httpx.AsyncClient) -> None:
    answer = await client.post(CHAT, content=chat(stream=False, no_speculation=True))

    assert answer.json()["metrics"]["speculative_decoding"] is None


async def test_embeddings_answer_vectors(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/embeddings", json={"input": "x"})

    assert len(answer.json()["data"][0]["embedding"]) == 4


@pytest.mark.parametrize(
    ("path", "body", "status", "where"),
    [
        (CHAT, b"{bad", 400, ("error", "param")),
        (CHAT, b"[]", 400, ("error", "param")),
        (CHAT, b'{"model":"fake-model"}', 400, ("error", "param")),
        (CHAT, b'{"model":"other","messages":[]}', 404, ("error", "param")),
        (CHAT, b'{"messages":[],"max_tokens":99999}', 400, ("error", "param")),
        ("/v1/messages", b'{"model":"other","messages":[]}', 404, ("error", "type")),
        ("/nothing", b"{}", 404, ("detail",)),
        ("/health", b"", 405, ("detail",)),
    ],
)
async def test_refusals_have_the_status_and_shape_of_vllm(
    client: httpx.AsyncClient, path: str, body: bytes, status: int, where: tuple[str, ...]
) -> None:
    answer = await client.post(path, content=body)

    found: Any = answer.json()
    for name in where:
        found = found[name]
    assert answer.status_code == status
    assert isinstance(found, str)


async def test_messages_refusals_are_anthropics(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/messages", json={"messages": [], "fake": {"status": 503}})

    assert answer.json()["type"] == "error"
    assert answer.status_code == 503


async def test_scripted_error_is_sent_word_for_word(client: httpx.AsyncClient) -> None:
    script: dict[str, Any] = {"status": 429, "error": {"odd": [1]}, "headers": {"retry-after": "3"}}

    answer = await client.post(CHAT, content=chat(**script))

    assert (answer.status_code, answer.json()) == (429, {"odd": [1]})
    assert answer.headers["retry-after"] == "3"


@pytest.mark.parametrize(
    ("script", "name"),
    [({"chunsk": 3}, "chunsk"), ({"chunks": "3"}, "chunks"), ({"cut_in_utf8": 99}, "cut_in_utf8")],
)
async def test_wrong_script_is_refused_by_name(
    client: httpx.AsyncClient, script: dict[str, Any], name: str
) -> None:
    answer = await client.post(CHAT, content=chat(**script))

    assert answer.status_code == 400
    assert name in answer.json()["error"]["message"]


@pytest.mark.parametrize("reset", [False, True])
async def test_drop_before_headers_sends_not_a_byte(worker: FakeWorker, *, reset: bool) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", worker.port)
    body = chat(drop_before_headers=True, reset=reset)
    writer.write(post(body))

    try:
        answer: bytes | None = await reader.read()
    except ConnectionResetError:
        answer = None
    writer.close()

    assert answer == (None if reset else b"")


async def test_drop_after_headers_breaks_an_empty_body(worker: FakeWorker) -> None:
    pieces, error = await writes_of(worker, chat(drop_after_headers=True))

    assert pieces == []
    assert isinstance(error, aiohttp.ClientPayloadError)


async def test_drop_after_chunks_leaves_whole_frames(worker: FakeWorker) -> None:
    pieces, error = await writes_of(worker, chat(drop_after_chunks=2))

    assert isinstance(error, aiohttp.ClientPayloadError)
    assert b"".join(pieces).count(b'"content":" hello"') == 2
    assert pieces[-1].endswith(b"\n\n")


async def test_reset_reaches_the_client_after_the_chunks(worker: FakeWorker) -> None:
    pieces, error = await writes_of(worker, chat(drop_after_chunks=2, reset=True))

    assert "reset by peer" in str(error)
    assert b"".join(pieces).count(b'"content":" hello"') == 2


async def test_cut_in_frame_leaves_half_a_frame(worker: FakeWorker) -> None:
    pieces, error = await writes_of(worker, chat(cut_in_frame=1))

    assert isinstance(error, aiohttp.ClientPayloadError)
    assert pieces[-1].startswith(b"data: {")
    assert not pieces[-1].endswith(b"\n\n")


async def test_clean_end_hides_the_cut_from_http(worker: FakeWorker) -> None:
    pieces, error = await writes_of(worker, chat(cut_in_frame=1, clean_end=True))

    assert error is None
    assert not pieces[-1].endswith(b"\n\n")


async def test_cut_in_utf8_leaves_half_a_character(worker: FakeWorker) -> None:
    pieces, error = await writes_of(worker, chat(cut_in_utf8=1))

    assert isinstance(error, aiohttp.ClientPayloadError)
    with pytest.raises(UnicodeDecodeError, match="unexpected end of data"):
        pieces[-1].decode()


async def test_split_utf8_sends_bytes_of_a_character_one_by_one(worker: FakeWorker) -> None:
    pieces, error = await writes_of(worker, chat(text=["a🙂b"], split_utf8=True))

    assert error is None
    assert [p for p in pieces if len(p) == 1] == [bytes([b]) for b in "🙂".encode()]
    assert data_of(b"".join(pieces))[1]["choices"][0]["delta"]["content"] == "a🙂b"


async def test_split_frames_changes_the_cuts_and_not_the_bytes(worker: FakeWorker) -> None:
    pieces, _ = await writes_of(worker, chat(chunks=5, split_frames=True))

    assert sum(piece.endswith(b"\n\n") for piece in pieces) < len(pieces)
    assert any(piece.count(b"\n\n") == 2 for piece in pieces)
    assert len(data_of(b"".join(pieces))) == 6


async def test_crlf_and_comments_are_still_events(worker: FakeWorker) -> None:
    pieces, _ = await writes_of(worker, chat(chunks=2, crlf=True, comments=True))

    stream = b"".join(pieces)
    assert stream.count(b": ping\r\n\r\n") == 2
    assert len(data_of(stream.replace(b"\r\n", b"\n"))) == 3


async def test_bad_json_is_followed_by_good_frames(client: httpx.AsyncClient) -> None:
    answer = await client.post(CHAT, content=chat(chunks=2, bad_json_frame=1))

    frames = answer.content.split(b"\n\n")
    with pytest.raises(json.JSONDecodeError):
        json.loads(frames[2].removeprefix(b"data: "))
    assert frames[-2] == b"data: [DONE]"


async def test_failure_in_mid_stream_is_an_error_frame_then_done(client: httpx.AsyncClient) -> None:
    answer = await client.post(CHAT, content=chat(error_frame_after_chunks=2))

    frames = answer.content.split(b"\n\n")
    assert json.loads(frames[-3].removeprefix(b"data: "))["error"]["code"] == 500
    assert frames[-2] == b"data: [DONE]"


async def test_huge_frame_and_big_body_have_their_size(client: httpx.AsyncClient) -> None:
    stream = await client.post(CHAT, content=chat(chunks=1, huge_frame_bytes=300_000))
    unary = await client.post(CHAT, content=chat(stream=False, unary_bytes=300_000))

    assert len(data_of(stream.content)[1]["choices"][0]["delta"]["content"]) == 300_000
    assert len(unary.json()["choices"][0]["message"]["content"]) > 300_000


async def test_truncated_unary_is_shorter_than_it_promises(worker: FakeWorker) -> None:
    pieces, error = await writes_of(worker, chat(stream=False, truncate_unary=True))

    assert isinstance(error, aiohttp.ClientPayloadError)
    assert pieces != []


async def test_delays_are_kept(client: httpx.AsyncClient) -> None:
    begin = time.monotonic()
    script: dict[str, Any] = {
        "delay_headers_seconds": 0.05,
        "delay_first_seconds": 0.05,
        "gap_seconds": 0.05,
    }

    await client.post(CHAT, content=chat(chunks=3, **script))

    assert time.monotonic() - begin >= 0.2


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
