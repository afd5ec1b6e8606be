"""Limits of a key, bounded concurrency, the bounded queue, and their response headers."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from gateway.admission import KeyLimits
from gateway.protocol import tenant_digest
from tests.fakes.keys import bearer, issue_key
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT
from tests.integration.running import RunningGateway, running_gateway
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
    assert tenants == [tenants[0]] * 2 + [tenant_digest("quiet")] + [tenants[0]] * 8
