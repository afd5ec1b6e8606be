"""A client sees each fault of a script."""

import asyncio
import json
import time
from typing import Any

import aiohttp
import httpx
import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.waiting import eventually
from tests.unit.fakes.calls import CHAT, chat, data_of, post, writes_of


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


@pytest.mark.parametrize("chunks", [0, 2])
async def test_stall_after_chunks_stops_the_stream_until_it_is_cleared(
    worker: FakeWorker, chunks: int
) -> None:
    answer = asyncio.create_task(writes_of(worker, chat(stall_after_chunks=chunks)))
    await eventually(lambda: worker.state.stall)
    (request,) = worker.requests
    assert (request.chunks_sent, request.finished) == (chunks, False)

    worker.state.stall = False
    pieces, error = await answer

    assert error is None
    assert b"".join(pieces).count(b'"content":" hello"') == 8


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
