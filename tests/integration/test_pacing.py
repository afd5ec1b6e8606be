"""Pacing over real sockets: what the SDKs read, and the sizes of private packets."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.keys import bearer, issue_key
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
) -> AsyncIterator[bytes]:
    """The reads of one chat stream, in order."""
    request = gateway.client.stream(
        "POST", CHAT.path, json=CHAT.body(stream=True, **body), headers=headers
    )
    async with request as answer:
        assert answer.status_code == 200
        async for data in answer.aiter_raw():
            yield data


async def _mode_of(gateway: RunningGateway, **request: Any) -> str:
    """The pacing mode of a short stream."""
    before = _modes(gateway)
    async for _ in _packets(gateway, fake={"chunks": 2}, **request):
        pass
    (changed,) = (mode for mode, count in _modes(gateway).items() if count != before[mode])
    return changed


def _modes(gateway: RunningGateway) -> dict[str, float]:
    name = "gateway_pacing_streams_total"
    return {mode: gateway.metric(name, mode=mode) for mode in ("smooth", "private", "off")}


@each_api
async def test_bursts_are_cut_into_more_pieces_of_the_same_text(
    worker: FakeWorker, api: Api
) -> None:
    pieces: list[str] = []
    async with running_gateway(worker) as gateway:
        await api.read_stream(gateway.url, {"fake": _BURSTS}, pieces)

        assert "".join(pieces) == 10 * _TEXT
        assert len([piece for piece in pieces if piece]) > 14
        assert gateway.metric("gateway_pacing_added_seconds_count", mode="smooth") >= 50


async def test_without_pacing_the_client_gets_the_workers_own_chunks(worker: FakeWorker) -> None:
    pieces: list[str] = []
    async with running_gateway(worker) as gateway:
        await CHAT.read_stream(gateway.url, {"fake": _BURSTS, "pacing": "off"}, pieces)

    assert [piece for piece in pieces if piece] == 10 * [_TEXT]


@each_api
async def test_a_private_stream_has_the_same_text(worker: FakeWorker, api: Api) -> None:
    pieces: list[str] = []
    async with running_gateway(worker, pacing=_PRIVATE) as gateway:
        await api.read_stream(gateway.url, {"fake": _BURSTS, "pacing": "private"}, pieces)

    assert "".join(pieces) == 10 * _TEXT


async def test_different_private_streams_have_the_same_packets(worker: FakeWorker) -> None:
    async with running_gateway(worker, pacing=_PRIVATE) as gateway:
        sizes = []
        for fake in ({"chunks": 3}, _BURSTS):
            packets = [data async for data in _packets(gateway, fake=fake, pacing="private")]
            assert {len(data) % 1024 for data in packets} == {0}  # a read may take two of them
            sizes.append(len(b"".join(packets)))

    assert sizes == [40 * 1024] * 2


async def test_an_error_in_a_private_stream_has_the_same_packets(worker: FakeWorker) -> None:
    fake = {"chunks": 8, "error_frame_after_chunks": 4}
    async with running_gateway(worker, pacing=_PRIVATE) as gateway:
        stream = _packets(gateway, fake=fake, pacing="private")
        packets = [data async for data in stream]

    assert len(b"".join(packets)) == 40 * 1024
    assert b"".join(packets).count(b'{"error"') == 1


@pytest.mark.parametrize("mode", ["smooth", "private"])
async def test_text_before_a_fault_is_delivered_then_one_error(
    worker: FakeWorker, mode: str
) -> None:
    pieces: list[str] = []
    async with running_gateway(worker, pacing=_PRIVATE) as gateway:
        extra = {"fake": {**_BURSTS, "cut_in_frame": 6}, "pacing": mode}
        with pytest.raises(CHAT.error):
            await CHAT.read_stream(gateway.url, extra, pieces)

    assert "".join(pieces) == 6 * _TEXT


@pytest.mark.parametrize("mode", ["smooth", "private"])
async def test_a_disconnect_aborts_a_paced_stream(worker: FakeWorker, mode: str) -> None:
    async with running_gateway(worker, pacing=_PRIVATE) as gateway:
        async for _ in _packets(gateway, fake={**_BURSTS, "chunks": 1000}, pacing=mode):
            break
        await eventually(lambda: worker.active == 0)

        assert worker.requests[0].aborted
        assert gateway.metric("gateway_inflight_requests") == 0


async def test_the_request_overrides_settings_except_private(worker: FakeWorker) -> None:
    async with running_gateway(worker, pacing=_PRIVATE) as gateway:
        assert await _mode_of(gateway) == "smooth"
        assert await _mode_of(gateway, headers={"X-Pacing": "off"}) == "off"
        assert await _mode_of(gateway, headers={"X-Pacing": "off"}, pacing="smooth") == "smooth"
        assert await _mode_of(gateway, n=2) == "off"
    private = {**_PRIVATE, "models": {"fake-model": "private"}}
    async with running_gateway(worker, pacing=private) as gateway:
        assert await _mode_of(gateway, pacing="off") == "private"


async def test_a_key_may_have_its_own_mode(worker: FakeWorker, folder: Path) -> None:
    key = issue_key(folder / "keys", pacing="private")
    keys = {"file": folder / "keys"}
    async with running_gateway(worker, pacing=_PRIVATE, keys=keys) as gateway:
        assert await _mode_of(gateway, headers=bearer(key), pacing="off") == "private"
