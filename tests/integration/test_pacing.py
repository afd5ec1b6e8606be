"""Pacing through real sockets: the SDKs judge the chunks, the wire shows when and how large."""

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from gateway.admission import KeyLimits, add_record, new_key
from gateway.types import PacingMode
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, Api, each_api
from tests.integration.running import RunningGateway, running_gateway
from tests.integration.waiting import eventually

_TEXT = " the quick brown 狐 👩‍🔬"
_BURSTS = {"chunks": 10, "gap_seconds": 0.06, "tokens_per_chunk": 5, "text": [_TEXT]}
_PRIVATE = {
    "private_tick_ms": 20.0,
    "private_start_ms": 50.0,
    "private_least_seconds": 0.8,
    "private_packet_bytes": 1024,
}


async def _packets(
    gateway: RunningGateway, headers: Mapping[str, str] | None = None, **body: Any
) -> AsyncIterator[tuple[float, bytes]]:
    """What comes of one chat stream, as it comes, with its clock."""
    request = gateway.client.stream(
        "POST", CHAT.path, json=CHAT.body(stream=True, **body), headers=headers
    )
    async with request as answer:
        assert answer.status_code == 200
        async for data in answer.aiter_raw():
            yield time.monotonic(), data


async def _mode_of(gateway: RunningGateway, **request: Any) -> str:
    """How the gateway paced a short stream."""
    before = _modes(gateway)
    async for _ in _packets(gateway, fake={"chunks": 2}, **request):
        pass
    (changed,) = (mode for mode, count in _modes(gateway).items() if count != before[mode])
    return changed


def _modes(gateway: RunningGateway) -> dict[str, float]:
    name = "gateway_pacing_streams_total"
    return {mode: gateway.metric(name, mode=mode) for mode in ("smooth", "private", "off")}


@each_api
async def test_bursts_come_in_more_pieces_and_are_the_same_text(
    worker: FakeWorker, api: Api
) -> None:
    pieces: list[str] = []
    async with running_gateway(worker) as gateway:
        await api.read_stream(gateway.url, {"fake": _BURSTS}, pieces)

        assert "".join(pieces) == 10 * _TEXT
        assert len([piece for piece in pieces if piece]) > 14
        assert gateway.metric("gateway_pacing_added_seconds_count", mode="smooth") >= 50


@each_api
async def test_whoever_wants_no_pacing_gets_the_workers_own_chunks(
    worker: FakeWorker, api: Api
) -> None:
    pieces: list[str] = []
    async with running_gateway(worker) as gateway:
        await api.read_stream(gateway.url, {"fake": _BURSTS, "pacing": "off"}, pieces)

    assert [piece for piece in pieces if piece] == 10 * [_TEXT]


@each_api
async def test_what_the_worker_gets_says_nothing_of_pacing(worker: FakeWorker, api: Api) -> None:
    async with running_gateway(worker) as gateway:
        await api.ask(gateway.url, {"pacing": "private"})

    assert "pacing" not in worker.requests[0].json()
    assert "x-pacing" not in worker.requests[0].headers


@each_api
async def test_a_private_stream_is_packets_of_one_size_and_the_same_text(
    worker: FakeWorker, api: Api
) -> None:
    pieces: list[str] = []
    async with running_gateway(worker, pacing=_PRIVATE) as gateway:
        await api.read_stream(gateway.url, {"fake": _BURSTS, "pacing": "private"}, pieces)

    assert "".join(pieces) == 10 * _TEXT


async def test_private_streams_that_differ_look_alike(worker: FakeWorker) -> None:
    async with running_gateway(worker, pacing=_PRIVATE) as gateway:
        looks = []
        for fake in ({"chunks": 3}, _BURSTS):
            packets = [data async for _, data in _packets(gateway, fake=fake, pacing="private")]
            assert {len(data) % 1024 for data in packets} == {0}  # a read may take two of them
            looks.append(len(b"".join(packets)))

    assert looks == [40 * 1024] * 2


async def test_an_error_looks_like_an_answer_in_private(worker: FakeWorker) -> None:
    fake = {"chunks": 8, "error_frame_after_chunks": 4}
    async with running_gateway(worker, pacing=_PRIVATE) as gateway:
        stream = _packets(gateway, fake=fake, pacing="private")
        packets = [data async for _, data in stream]

    assert len(b"".join(packets)) == 40 * 1024
    assert b"".join(packets).count(b'{"error"') == 1


@pytest.mark.parametrize("mode", ["smooth", "private"])
@pytest.mark.parametrize(
    "fault",
    [{"drop_after_chunks": 6}, {"cut_in_frame": 6}, {"error_frame_after_chunks": 6}],
    ids=["dropped", "cut", "error"],
)
async def test_what_came_before_a_fault_is_delivered_then_one_error(
    worker: FakeWorker, mode: str, fault: Mapping[str, int]
) -> None:
    pieces: list[str] = []
    async with running_gateway(worker, pacing=_PRIVATE) as gateway:
        extra = {"fake": {**_BURSTS, **fault}, "pacing": mode}
        with pytest.raises(CHAT.error):
            await CHAT.read_stream(gateway.url, extra, pieces)

    assert "".join(pieces) == 6 * _TEXT


@pytest.mark.parametrize("mode", ["smooth", "private"])
async def test_a_client_that_leaves_frees_everything(worker: FakeWorker, mode: str) -> None:
    async with running_gateway(worker, pacing=_PRIVATE) as gateway:
        async for _ in _packets(gateway, fake={**_BURSTS, "chunks": 1000}, pacing=mode):
            break
        await eventually(lambda: worker.active == 0)

        assert worker.requests[0].aborted
        assert gateway.metric("gateway_inflight_requests") == 0


async def test_a_request_decides_unless_its_model_is_private(worker: FakeWorker) -> None:
    async with running_gateway(worker, pacing=_PRIVATE) as gateway:
        assert await _mode_of(gateway) == "smooth"
        assert await _mode_of(gateway, pacing="off") == "off"
        assert await _mode_of(gateway, pacing="private") == "private"
        assert await _mode_of(gateway, headers={"X-Pacing": "off"}) == "off"
        assert await _mode_of(gateway, headers={"X-Pacing": "off"}, pacing="smooth") == "smooth"
        assert await _mode_of(gateway, n=2) == "off"
    private = {**_PRIVATE, "models": {"fake-model": "private"}}
    async with running_gateway(worker, pacing=private) as gateway:
        assert await _mode_of(gateway, pacing="off") == "private"


@pytest.mark.parametrize(
    ("key_mode", "asked", "used"),
    [("private", "off", "private"), ("off", None, "off"), ("off", "smooth", "smooth")],
)
async def test_a_key_has_a_mode_of_its_own(
    worker: FakeWorker, tmp_path: Any, key_mode: PacingMode, asked: str | None, used: str
) -> None:
    key, record = new_key(tenant="t", name="", created="", limits=KeyLimits(), pacing=key_mode)
    add_record(tmp_path / "keys", record)
    keys = {"file": tmp_path / "keys"}
    async with running_gateway(worker, pacing=_PRIVATE, keys=keys) as gateway:
        headers = {"authorization": f"Bearer {key}"}
        assert await _mode_of(gateway, headers=headers, pacing=asked) == used


@pytest.mark.parametrize(
    ("body", "headers", "param"),
    [
        ({"pacing": "fast"}, {}, "pacing"),
        ({"pacing": True}, {}, "pacing"),
        ({"pacing": {"mode": "off"}}, {}, "pacing"),
        ({}, {"X-Pacing": "fast"}, "X-Pacing"),
        ({"pacing": "off"}, {"X-Pacing": ""}, "X-Pacing"),
    ],
    ids=["word", "kind", "object", "header", "empty-header"],
)
async def test_a_mode_that_does_not_exist_is_refused(
    worker: FakeWorker, body: dict[str, Any], headers: dict[str, str], param: str
) -> None:
    async with running_gateway(worker) as gateway:
        answer = await gateway.client.post(
            CHAT.path, json=CHAT.body(stream=True, **body), headers=headers
        )

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert worker.requests == []
