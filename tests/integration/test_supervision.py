"""The gateway's own worker: restarted when it ends, fails or stalls, left alone when it is busy."""

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


def _alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


async def test_requests_are_served_by_the_worker_it_starts(folder: Path) -> None:
    async with gateway_process(folder, supervisor=_QUICK, upstream=_PROBING) as gateway:
        pieces: list[str] = []
        await CHAT.read_stream(gateway.url, {}, pieces)

        assert "".join(pieces) == " hello" * 8
        assert await _restarts(gateway) == {
            "state": "ready",
            "pid": gateway.lives[0][0],
            "restarts": 0,
            "last_reason": None,
        }


async def test_metrics_of_the_worker_are_handed_on(folder: Path) -> None:
    async with gateway_process(folder, supervisor=_QUICK, upstream=_PROBING) as gateway:
        page = await gateway.client.get("/metrics/worker")
        own = await gateway.client.get("/metrics")

        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "vllm:iteration_tokens_total_count" in page.text
        assert 'gateway_worker_restarts_total{reason="stalled",worker="local"} 0.0' in own.text


async def test_killed_worker_comes_back(folder: Path) -> None:
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


async def test_request_without_a_byte_is_replayed_on_the_next_life(folder: Path) -> None:
    async with gateway_process(folder, supervisor=_QUICK, upstream=_PROBING) as gateway:
        script = {"delay_first_seconds": 0.5}
        pieces: list[str] = []
        reading = asyncio.create_task(CHAT.read_stream(gateway.url, {"fake": script}, pieces))
        await asyncio.sleep(0.2)

        os.kill(gateway.lives[0][0], signal.SIGKILL)
        await reading

        assert "".join(pieces) == " hello" * 8
        assert len(gateway.lives) == 2


async def test_failing_health_leads_to_a_restart(folder: Path) -> None:
    async with gateway_process(folder, supervisor=_QUICK, upstream=_PROBING) as gateway:
        await _set_worker(gateway, health_status=503)
        await eventually(lambda: len(gateway.lives) == 2, within_seconds=_RESTART_SECONDS)
        await gateway.until_ready()

        assert (await _restarts(gateway))["last_reason"] == "unhealthy"


async def test_health_that_fails_for_a_moment_does_not(folder: Path) -> None:
    patient = {**_QUICK, "unhealthy_seconds": 3.0}
    async with gateway_process(folder, supervisor=patient, upstream=_PROBING) as gateway:
        await _set_worker(gateway, health_status=503)
        await asyncio.sleep(0.5)
        await _set_worker(gateway, health_status=200)
        await gateway.until_ready()

        assert (await _restarts(gateway))["restarts"] == 0


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


async def test_worker_that_is_being_ended_gets_no_request(folder: Path) -> None:
    """While it dies it may still listen; to try there would use up a request's replays."""
    (folder / "plan").write_text("lingers serve", encoding="utf-8")
    patient = {**_QUICK, "stop_seconds": 1.5}
    async with gateway_process(folder, supervisor=patient, upstream=_PROBING) as gateway:
        await _set_worker(gateway, stall=True)
        asked = []
        while len(gateway.lives) == 1:
            sending = gateway.client.post(CHAT.path, json=CHAT.body(), timeout=30)
            asked.append(asyncio.create_task(sending))
            await asyncio.sleep(0.1)

        statuses = [answer.status_code for answer in await asyncio.gather(*asked)]

        assert set(statuses) == {200}


async def test_busy_worker_is_left_alone(folder: Path) -> None:
    async with gateway_process(folder, supervisor=_QUICK, upstream=_PROBING) as gateway:
        # Twice the patience for stalls, with no token in between.
        body = CHAT.body(fake={"delay_headers_seconds": 1.3})
        answer = await gateway.client.post(CHAT.path, json=body)

        assert answer.status_code == 200
        assert (await _restarts(gateway))["restarts"] == 0
        assert gateway.logged("worker_suspect") == []


async def test_worker_with_a_slow_reader_proves_itself_and_is_left_alone(folder: Path) -> None:
    async with gateway_process(folder, supervisor=_QUICK, upstream=_PROBING) as gateway:
        await _set_worker(gateway, engine_idle=True)
        body = CHAT.body(stream=True, fake={"hang_after_chunks": 2})
        async with gateway.client.stream("POST", CHAT.path, json=body):
            await asyncio.sleep(1.6)

            assert gateway.logged("worker_suspect") != []  # it was asked for one token
            assert (await _restarts(gateway))["restarts"] == 0


async def test_idle_worker_whose_counter_stands_still_is_left_alone(folder: Path) -> None:
    async with gateway_process(folder, supervisor=_QUICK, upstream=_PROBING) as gateway:
        await _set_worker(gateway, stall=True)
        await asyncio.sleep(1.3)

        assert (await _restarts(gateway))["restarts"] == 0


async def test_worker_that_refuses_its_settings_ends_the_gateway(folder: Path) -> None:
    (folder / "plan").write_text("refuse", encoding="utf-8")
    supervisor = {**_QUICK, "log_file": str(folder / "worker.log")}
    async with gateway_process(folder, wait_ready=False, supervisor=supervisor) as gateway:
        status = await gateway.ended()

        assert status == 2
        assert "specgate: engine.speculation: the stand-in was told to refuse" in gateway.lines
        assert len(gateway.lives) == 1


async def test_refusal_of_a_worker_that_shares_the_log_is_named_too(folder: Path) -> None:
    (folder / "plan").write_text("refuse", encoding="utf-8")
    async with gateway_process(folder, wait_ready=False, supervisor=_QUICK) as gateway:
        status = await gateway.ended()

    assert status == 2
    assert "engine.speculation: the stand-in was told to refuse" in gateway.lines
    assert "specgate: the worker refused its settings; see its output" in gateway.lines


async def test_worker_that_keeps_crashing_is_started_ever_more_seldom(folder: Path) -> None:
    (folder / "plan").write_text("crash crash crash crash serve", encoding="utf-8")
    async with gateway_process(folder, supervisor=_QUICK, upstream=_PROBING) as gateway:
        pauses = [line["pause_seconds"] for line in gateway.logged("worker_restarting")]

        assert pauses == [0.0, 0.2, 0.4, 0.8]
        assert (await _restarts(gateway))["restarts"] == 4


async def test_worker_that_never_gets_ready_is_started_anew(folder: Path) -> None:
    (folder / "plan").write_text("never_ready serve", encoding="utf-8")
    supervisor = {**_QUICK, "start_seconds": 1.0}
    async with gateway_process(folder, supervisor=supervisor, upstream=_PROBING) as gateway:
        assert (await _restarts(gateway))["last_reason"] == "start_timeout"


@pytest.mark.parametrize("word", ["serve", "stubborn", "with_child"])
async def test_end_of_the_gateway_ends_the_worker_and_its_children(folder: Path, word: str) -> None:
    (folder / "plan").write_text(word, encoding="utf-8")
    async with gateway_process(folder, supervisor=_QUICK, upstream=_PROBING) as gateway:
        gateway.signal(signal.SIGINT)

        assert await gateway.ended() == 0
        assert [pid for life in gateway.lives for pid in life if _alive(pid)] == []


async def test_children_of_a_killed_worker_do_not_outlive_it(folder: Path) -> None:
    (folder / "plan").write_text("with_child serve", encoding="utf-8")
    async with gateway_process(folder, supervisor=_QUICK, upstream=_PROBING) as gateway:
        leader, child = gateway.lives[0]

        os.kill(leader, signal.SIGKILL)
        await eventually(lambda: len(gateway.lives) == 2, within_seconds=_RESTART_SECONDS)

        assert not _alive(child)


async def test_worker_follows_a_killed_gateway(folder: Path) -> None:
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
