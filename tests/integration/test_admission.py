"""Limits of a key, bounded concurrency, the bounded queue, and the headers that tell of them."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from gateway.admission import KeyLimits, add_record, new_key
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, Api, each_api
from tests.integration.running import RunningGateway, running_gateway
from tests.integration.waiting import eventually

_HANG = {"hang_before_headers": True}


def _key_with(folder: Path, **limits: int) -> tuple[dict[str, Path], dict[str, str]]:
    """A key file with one key: the `keys` section, and the header that presents it."""
    key, record = new_key(tenant="acme", name="", created="", limits=KeyLimits(**limits))
    add_record(folder / "keys", record)
    return {"file": folder / "keys"}, {"authorization": f"Bearer {key}"}


async def _ask(
    gateway: RunningGateway, headers: dict[str, str] | None = None, **more: Any
) -> httpx.Response:
    return await gateway.client.post(CHAT.path, json=CHAT.body(**more), headers=headers)


async def test_requests_over_the_limit_are_answered_429(worker: FakeWorker, folder: Path) -> None:
    keys, headers = _key_with(folder, requests_per_minute=3)
    async with running_gateway(worker, keys=keys) as gateway:
        answers = [await _ask(gateway, headers) for _ in range(4)]

        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        remaining = [answer.headers["x-ratelimit-remaining-requests"] for answer in answers]
        assert remaining == ["2", "1", "0", "0"]
        last = answers[-1]
        assert last.headers["x-ratelimit-limit-requests"] == "3"
        assert 15 <= int(last.headers["retry-after"]) <= 20
        assert last.headers["x-ratelimit-reset-requests"].startswith(("59.", "1m0"))
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


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
async def test_tokens_are_settled_by_what_was_really_used(
    worker: FakeWorker, folder: Path, stream: bool
) -> None:
    keys, headers = _key_with(folder, tokens_per_minute=10_000)
    script = {"prompt_tokens": 100, "chunks": 20, "tokens_per_chunk": 5}
    async with running_gateway(worker, keys=keys) as gateway:
        first = await _ask(gateway, headers, max_tokens=5000, fake=script, stream=stream)
        second = await _ask(gateway, headers, fake=script, stream=stream)

        estimated = 10_000 - int(first.headers["x-ratelimit-remaining-tokens"])
        used = 10_000 - int(second.headers["x-ratelimit-remaining-tokens"])
        assert estimated >= 5000
        assert 150 <= used < 300  # the first's 200, the second's estimate, and what refilled


async def test_tokens_over_the_limit_are_answered_429(worker: FakeWorker, folder: Path) -> None:
    keys, headers = _key_with(folder, tokens_per_minute=1000)
    script = {"prompt_tokens": 3000}
    async with running_gateway(worker, keys=keys) as gateway:
        first = await _ask(gateway, headers, fake=script)
        second = await _ask(gateway, headers)

    assert (first.status_code, second.status_code) == (200, 429)
    assert second.headers["x-ratelimit-remaining-tokens"] == "0"
    assert int(second.headers["retry-after"]) > 60


async def test_request_that_was_never_run_costs_no_tokens(worker: FakeWorker, folder: Path) -> None:
    keys, headers = _key_with(folder, tokens_per_minute=10_000)
    admission = {"max_running_requests": 1, "queue_timeout_seconds": 0.1}
    async with running_gateway(worker, keys=keys, admission=admission) as gateway:
        running = asyncio.create_task(_ask(gateway, headers, fake=_HANG))
        await eventually(lambda: worker.active == 1)
        late = await _ask(gateway, headers, max_tokens=9000)
        running.cancel()
        await eventually(lambda: worker.active == 0)
        after = await _ask(gateway, headers)

    assert (late.status_code, after.status_code) == (503, 200)
    assert int(after.headers["x-ratelimit-remaining-tokens"]) > 9000


async def test_key_may_run_so_many_at_a_time(worker: FakeWorker, folder: Path) -> None:
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
        await eventually(lambda: gateway.metric("gateway_queue_depth") == 1)

        refused = await _ask(gateway)
        for task in waiting:
            task.cancel()

        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["code"] == "overloaded"
        assert gateway.metric("gateway_rejections_total", reason="queue_full") == 1


@each_api
async def test_wait_in_the_queue_is_bounded(worker: FakeWorker, api: Api) -> None:
    admission = {"max_running_requests": 1, "queue_timeout_seconds": 0.2}
    async with running_gateway(worker, admission=admission) as gateway:
        running = asyncio.create_task(_ask(gateway, fake=_HANG))
        await eventually(lambda: worker.active == 1)
        started = time.monotonic()

        late = await gateway.client.post(api.path, json=api.body(stream=True))
        took = time.monotonic() - started
        running.cancel()

        assert late.status_code == 503
        assert "retry-after" in late.headers
        assert took >= 0.2
        assert gateway.metric("gateway_rejections_total", reason="queue_timeout") == 1


async def test_concurrency_on_the_worker_is_bounded(worker: FakeWorker) -> None:
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, worker.active)
            await asyncio.sleep(0)

    script = {"delay_headers_seconds": 0.05}
    async with running_gateway(worker, admission={"max_running_requests": 4}) as gateway:
        watching = asyncio.create_task(watch())
        answers = await asyncio.gather(*(_ask(gateway, fake=script) for _ in range(20)))
        watching.cancel()

    assert [answer.status_code for answer in answers] == [200] * 20
    assert most == 4


async def test_burst_of_one_tenant_does_not_stand_in_front_of_another(
    worker: FakeWorker, folder: Path
) -> None:
    headers = {}
    for tenant in ("loud", "quiet"):
        key, record = new_key(tenant=tenant, name="", created="", limits=KeyLimits())
        add_record(folder / "keys", record)
        headers[tenant] = {"authorization": f"Bearer {key}"}
    admission = {"max_running_requests": 1}
    order: list[str] = []

    async with running_gateway(
        worker, keys={"file": folder / "keys"}, admission=admission
    ) as gateway:

        async def ask(tenant: str, *, seconds: float = 0.01) -> None:
            await _ask(gateway, headers[tenant], fake={"delay_headers_seconds": seconds})
            order.append(tenant)

        # The first one takes long enough for all the others to line up behind it.
        loud = [asyncio.create_task(ask("loud", seconds=1.5))]
        await eventually(lambda: worker.active == 1)
        loud += [asyncio.create_task(ask("loud")) for _ in range(9)]
        await eventually(lambda: gateway.metric("gateway_queue_depth") == 9)
        await ask("quiet")
        await asyncio.gather(*loud)

    assert order.index("quiet") <= 2
