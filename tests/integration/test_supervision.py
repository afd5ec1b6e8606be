"""The worker that the gateway starts: restarted when it ends or stalls, ended with the gateway."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.integration.apis import CHAT
from tests.integration.process import GatewayProcess, gateway_process
from tests.integration.waiting import eventually

_QUICK: dict[str, Any] = {
    "check_seconds": 0.05,
    "probe_seconds": 0.3,
    "unhealthy_seconds": 0.4,
    "stalled_seconds": 0.6,
    "stop_seconds": 0.5,
    "backoff_seconds": 0.2,
}
_PROBING = {"probe_seconds": 0.05}
_SLOW = {"chunks": 100, "gap_seconds": 0.02}
_RESTART_SECONDS = 8.0


async def _set_worker(gateway: GatewayProcess, **state: Any) -> None:
    """Change the stand-in worker while it runs."""
    transport = httpx.AsyncHTTPTransport(uds=str(gateway.folder / "worker.sock"))
    async with httpx.AsyncClient(transport=transport, base_url="http://worker") as client:
        (await client.post("/_fake/state", json=state)).raise_for_status()


async def _restarts(gateway: GatewayProcess) -> dict[str, Any]:
    answer = await gateway.client.get("/health/workers")
    found = answer.json()["workers"][0]["supervisor"]
    assert isinstance(found, dict)
    return found


async def _restarts_once(gateway: GatewayProcess, state: str) -> dict[str, Any]:
    """The supervisor sees a ready worker one check after the gateway does."""
    async with asyncio.timeout(_RESTART_SECONDS):
        while True:
            found = await _restarts(gateway)
            if found["state"] == state:
                return found
            await asyncio.sleep(0.02)


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_requests_are_served_by_the_worker_it_starts(folder: Path) -> None:
    async with gateway_process(folder, supervisor=_QUICK, upstream=_PROBING) as gateway:
        pieces: list[str] = []
        await CHAT.read_stream(gateway.url, {}, pieces)

        assert "".join(pieces) == " hello" * 8
        assert await _restarts_once(gateway, "ready") == {
            "state": "ready",
            "pid": gateway.lives[0][0],
            "restarts": 0,
            "last_reason": None,
        }
        page = await gateway.client.get("/metrics/worker")
        own = await gateway.client.get("/metrics")

    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "vllm:iteration_tokens_total_count" in page.text
    assert 'gateway_worker_restarts_total{reason="stalled",worker="local"} 0.0' in own.text


async def test_killed_worker_is_restarted(folder: Path) -> None:
    async with gateway_process(folder, supervisor=_QUICK, upstream=_PROBING) as gateway:
        pieces: list[str] = []
        reading = asyncio.create_task(
            CHAT.read_stream(gateway.url, {"fake": _SLOW}, pieces), name="in flight"
        )
        await eventually(lambda: len(pieces) > 3)

        os.kill(gateway.lives[0][0], signal.SIGKILL)
        with pytest.raises(CHAT.error):
            await reading
        later = await gateway.client.post(CHAT.path, json=CHAT.body())

        assert later.status_code == 200
        assert len(gateway.lives) == 2
        assert (await _restarts(gateway))["last_reason"] == "exited"
        metrics = (await gateway.client.get("/metrics")).text
        assert 'gateway_worker_restarts_total{reason="exited",worker="local"} 1.0' in metrics


async def test_worker_that_makes_no_progress_is_restarted(folder: Path) -> None:
    async with gateway_process(folder, supervisor=_QUICK, upstream=_PROBING) as gateway:
        pieces: list[str] = []
        reading = asyncio.create_task(CHAT.read_stream(gateway.url, {"fake": _SLOW}, pieces))
        await eventually(lambda: len(pieces) > 3)

        await _set_worker(gateway, stall=True)
        with pytest.raises(CHAT.error):
            await reading
        await eventually(lambda: len(gateway.lives) == 2, within_seconds=_RESTART_SECONDS)
        await gateway.until_ready()

        assert gateway.logged("worker_suspect") != []
        assert (await _restarts(gateway))["last_reason"] == "stalled"


async def test_worker_that_refuses_its_settings_ends_the_gateway(folder: Path) -> None:
    (folder / "plan").write_text("refuse", encoding="utf-8")
    supervisor = {**_QUICK, "log_file": str(folder / "worker.log")}
    async with gateway_process(folder, wait_ready=False, supervisor=supervisor) as gateway:
        status = await gateway.ended()

        assert status == 2
        assert "specgate: engine.speculation: the stand-in was told to refuse" in gateway.lines
        assert len(gateway.lives) == 1


async def test_end_of_the_gateway_ends_the_worker_and_its_children(folder: Path) -> None:
    (folder / "plan").write_text("with_child", encoding="utf-8")
    async with gateway_process(folder, supervisor=_QUICK, upstream=_PROBING) as gateway:
        gateway.signal(signal.SIGINT)

        assert await gateway.ended() == 0
        assert [pid for life in gateway.lives for pid in life if _alive(pid)] == []


async def test_worker_ends_when_the_gateway_is_killed(folder: Path) -> None:
    async with gateway_process(folder, supervisor=_QUICK, upstream=_PROBING) as gateway:
        gateway.signal(signal.SIGKILL)
        await gateway.ended()

        await eventually(lambda: not _alive(gateway.lives[0][0]), within_seconds=3.0)


async def test_second_signal_still_ends_the_worker(folder: Path) -> None:
    drain = {"accept_seconds": 30.0, "finish_seconds": 30.0}
    async with gateway_process(
        folder, supervisor=_QUICK, upstream=_PROBING, drain=drain
    ) as gateway:
        gateway.signal(signal.SIGTERM)
        await eventually(lambda: gateway.logged("draining") != [])

        gateway.signal(signal.SIGTERM)
        await gateway.ended(within_seconds=5.0)

        assert [pid for life in gateway.lives for pid in life if _alive(pid)] == []
