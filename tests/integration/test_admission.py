"""Limits of a key, bounded concurrency, the bounded queue, and their response headers."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from gateway.admission import KeyLimits
from tests.fakes.keys import bearer, issue_key
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT
from tests.integration.connection import connect
from tests.integration.running import DIGESTS, RunningGateway, running_gateway
from tests.integration.waiting import eventually

_HANG = {"hang_before_headers": True}


def _key_with(folder: Path, **limits: int) -> tuple[dict[str, Path], dict[str, str]]:
    """Write a key file with one key; returns the `keys` section and the request header."""
    return {"file": folder / "keys"}, bearer(issue_key(folder / "keys", KeyLimits(**limits)))


async def _ask(
    gateway: RunningGateway, headers: dict[str, str] | None = None, **more: Any
) -> httpx.Response:
    return await gateway.client.post(CHAT.path, json=CHAT.body(**more), headers=headers)


async def _until_queued(gateway: RunningGateway, count: int) -> None:
    await eventually(lambda: gateway.metric("gateway_queue_depth") == count)


async def test_requests_over_the_limit_are_answered_429(worker: FakeWorker, folder: Path) -> None:
    keys, headers = _key_with(folder, requests_per_minute=3)
    async with running_gateway(worker, keys=keys) as gateway:
        answers = [await _ask(gateway, headers) for _ in range(4)]

        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        remaining = [answer.headers["x-ratelimit-remaining-requests"] for answer in answers]
        assert remaining == ["2", "1", "0", "0"]
        last = answers[-1]
        assert last.headers["x-ratelimit-limit-requests"] == "3"
        assert 1 <= int(last.headers["retry-after"]) <= 20
        assert last.headers["x-ratelimit-reset-requests"] != "0s"
        assert last.json()["error"]["code"] == "rate_limit_exceeded"
        assert len(worker.requests) == 3
        assert gateway.metric("gateway_rejections_total", reason="rate_limit") == 1


async def test_sdk_raises_its_rate_limit_error(worker: FakeWorker, folder: Path) -> None:
    keys, headers = _key_with(folder, requests_per_minute=1)
    key = headers["authorization"].removeprefix("Bearer ")
    async with running_gateway(worker, keys=keys) as gateway:
        await _ask(gateway, headers)
        async with openai.AsyncOpenAI(
            base_url=f"{gateway.url}/v1", api_key=key, max_retries=0
        ) as client:
            with pytest.raises(openai.RateLimitError):
                await client.chat.completions.create(
                    model="fake-model", messages=[{"role": "user", "content": "x"}]
                )


async def test_concurrency_of_a_key_is_limited(worker: FakeWorker, folder: Path) -> None:
    keys, headers = _key_with(folder, concurrent_requests=2)
    async with running_gateway(worker, keys=keys) as gateway:
        running = [asyncio.create_task(_ask(gateway, headers, fake=_HANG)) for _ in range(2)]
        await eventually(lambda: worker.active == 2)
        third = await _ask(gateway, headers)
        running[0].cancel()
        await eventually(lambda: worker.active == 1)
        await eventually(lambda: gateway.metric("gateway_inflight_requests") == 1)
        fourth = await _ask(gateway, headers)
        running[1].cancel()

    assert third.status_code == 429
    assert int(third.headers["retry-after"]) >= 1
    assert fourth.status_code == 200


async def test_full_queue_is_answered_503(worker: FakeWorker) -> None:
    admission = {"max_running_requests": 1, "max_queued_requests": 1}
    async with running_gateway(worker, admission=admission) as gateway:
        waiting = [asyncio.create_task(_ask(gateway, fake=_HANG)) for _ in range(2)]
        await _until_queued(gateway, 1)

        refused = await _ask(gateway)
        for task in waiting:
            task.cancel()

        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["code"] == "overloaded"
        assert gateway.metric("gateway_rejections_total", reason="queue_full") == 1


async def test_wait_in_the_queue_is_bounded(worker: FakeWorker) -> None:
    admission = {"max_running_requests": 1, "queue_timeout_seconds": 0.1}
    async with running_gateway(worker, admission=admission) as gateway:
        running = asyncio.create_task(_ask(gateway, fake=_HANG))
        await eventually(lambda: worker.active == 1)

        late = await _ask(gateway, stream=True)
        running.cancel()

        assert late.status_code == 503
        assert "retry-after" in late.headers
        assert len(worker.requests) == 1
        assert gateway.metric("gateway_rejections_total", reason="queue_timeout") == 1


async def test_concurrency_on_the_worker_is_bounded(worker: FakeWorker) -> None:
    async with running_gateway(worker, admission={"max_running_requests": 4}) as gateway:
        worker.state.stall = True
        asking = [asyncio.create_task(_ask(gateway)) for _ in range(20)]
        await _until_queued(gateway, 16)
        await eventually(lambda: worker.active == 4)
        worker.state.stall = False
        answers = await asyncio.gather(*asking)

    assert [answer.status_code for answer in answers] == [200] * 20


async def test_tenants_take_turns(worker: FakeWorker, folder: Path) -> None:
    path = folder / "keys"
    headers = {tenant: bearer(issue_key(path, tenant=tenant)) for tenant in ("loud", "quiet")}
    keys, admission = {"file": path}, {"max_running_requests": 1}
    async with running_gateway(worker, keys=keys, admission=admission) as gateway:
        worker.state.stall = True
        asking = []
        for position, tenant in enumerate(["loud"] * 10 + ["quiet"]):
            asking.append(asyncio.create_task(_ask(gateway, headers[tenant])))
            await eventually(lambda: worker.active == 1)
            await _until_queued(gateway, position)
        worker.state.stall = False
        await asyncio.gather(*asking)

    tenants = [request.json()["cache_salt"] for request in worker.requests]
    assert tenants == [tenants[0]] * 2 + [DIGESTS.of("quiet")] + [tenants[0]] * 8


async def test_a_tenant_that_fills_the_queue_does_not_keep_others_out(
    worker: FakeWorker, folder: Path
) -> None:
    path = folder / "keys"
    headers = {tenant: bearer(issue_key(path, tenant=tenant)) for tenant in ("loud", "quiet")}
    keys, admission = {"file": path}, {"max_running_requests": 1, "max_queued_requests": 3}
    async with running_gateway(worker, keys=keys, admission=admission) as gateway:
        worker.state.stall = True
        loud = []
        for position in (0, 1, 2, 3):
            loud.append(asyncio.create_task(_ask(gateway, headers["loud"])))
            await eventually(lambda: worker.active == 1)
            await _until_queued(gateway, position)
        quiet = asyncio.create_task(_ask(gateway, headers["quiet"]))
        displaced = await loud[-1]
        worker.state.stall = False

        assert (await quiet).status_code == 200
        assert [(await answer).status_code for answer in loud] == [200, 200, 200, 503]
        assert displaced.json()["error"]["code"] == "overloaded"


async def test_a_request_over_its_limits_is_refused_before_its_body(
    worker: FakeWorker, folder: Path
) -> None:
    keys, headers = _key_with(folder, requests_per_minute=1)
    head = (
        f"POST {CHAT.path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n"
        f"authorization: {headers['authorization']}\r\n\r\n"
    )
    async with running_gateway(worker, keys=keys) as gateway:
        await _ask(gateway, headers)
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(head.encode())

        assert await reader.readline() == b"HTTP/1.1 429 Too Many Requests\r\n"
        writer.close()


async def test_bodies_in_flight_are_bounded(worker: FakeWorker, folder: Path) -> None:
    path = folder / "keys"
    headers = {tenant: bearer(issue_key(path, tenant=tenant)) for tenant in ("large", "other")}
    keys, admission = {"file": path}, {"max_bytes_in_flight": 1000, "tenant_bytes_ratio": 0.6}
    async with running_gateway(worker, keys=keys, admission=admission) as gateway:
        running = asyncio.create_task(_ask(gateway, headers["large"], user="x" * 500, fake=_HANG))
        await eventually(lambda: worker.active == 1)

        same_tenant = await _ask(gateway, headers["large"])
        too_large = await _ask(gateway, headers["other"], user="x" * 500)
        small = await _ask(gateway, headers["other"])
        running.cancel()
        await eventually(lambda: gateway.metric("gateway_inflight_requests") == 0)
        after = await _ask(gateway, headers["other"], user="x" * 5000)

        statuses = [answer.status_code for answer in (same_tenant, too_large, small, after)]
        assert statuses == [429, 429, 200, 200]
        assert int(same_tenant.headers["retry-after"]) >= 1
        assert gateway.metric("gateway_rejections_total", reason="bytes_in_flight") == 2


async def test_leaving_before_the_usage_chunk_does_not_bypass_the_token_limit(
    worker: FakeWorker, folder: Path
) -> None:
    keys, headers = _key_with(folder, tokens_per_minute=200)
    authorization = f"authorization: {headers['authorization']}\r\n"
    script = {"chunks": 100, "gap_seconds": 0.001, "hang_after_chunks": 60}
    body = CHAT.body(stream=True, max_tokens=1, fake=script)
    statuses: list[bytes] = []
    async with running_gateway(worker, keys=keys) as gateway:
        while b"429" not in statuses:
            async with connect(gateway.port) as leaving:
                await leaving.post(CHAT.path, body, headers=authorization)
                statuses.append((await leaving.read_until(b"\r\n"))[9:12])
                if statuses[-1] == b"200":
                    await eventually(lambda: worker.requests[-1].chunks_sent == 60)
                leaving.leave()
            await eventually(lambda: gateway.metric("gateway_inflight_requests") == 0)

    assert statuses in ([b"200", b"429"], 2 * [b"200"] + [b"429"], 3 * [b"200"] + [b"429"])
