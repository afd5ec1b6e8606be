"""Many slow clients, and many greedy tenants, beside ordinary ones: counted, not timed."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from bench.fuzz.requests import Wire
from tests.fakes.keys import bearer, issue_key
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT
from tests.integration.connection import connect
from tests.integration.running import DIGESTS, RunningGateway, running_gateway
from tests.integration.waiting import eventually

_KEY = "sg-not-checked"
_SLOW = 200
_TENANTS = 20


async def test_slow_clients_do_not_keep_others_out(worker: FakeWorker) -> None:
    wire = Wire(_KEY, "slow")
    begun = [wire.head()[:-1], wire.post(wire.body())[:-1]]
    async with running_gateway(worker, admission={"max_running_requests": 4}) as gateway:
        async with AsyncExitStack() as slow:
            for number in range(_SLOW):
                connection = await slow.enter_async_context(connect(gateway.port))
                await connection.send(begun[number % 2])

            answers = [await gateway.client.post(CHAT.path, json=CHAT.body()) for _ in range(10)]

        assert [answer.status_code for answer in answers] == [200] * 10
        assert len(worker.requests) == 10  # nothing of the slow ones
        await eventually(lambda: gateway.metric("gateway_inflight_requests") == 0)


async def test_a_polite_tenant_gets_its_turn_in_a_flood(worker: FakeWorker, folder: Path) -> None:
    file = folder / "keys"
    polite = bearer(issue_key(file, tenant="polite"))
    greedy = [bearer(issue_key(file, tenant=f"greedy-{number}")) for number in range(_TENANTS)]
    admission = {"max_running_requests": 4, "max_queued_requests": 2 * _TENANTS}

    async def ask(gateway: RunningGateway, headers: dict[str, str]) -> int:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(), headers=headers)
        return answer.status_code

    async with running_gateway(worker, keys={"file": file}, admission=admission) as gateway:
        worker.state.stall = True
        flood = [asyncio.create_task(ask(gateway, key)) for key in greedy * 4]
        await eventually(lambda: gateway.metric("gateway_queue_depth") == 2 * _TENANTS)
        asking = asyncio.create_task(ask(gateway, polite))
        await asyncio.sleep(0.05)
        worker.state.stall = False
        status = await asking
        refused = (await asyncio.gather(*flood)).count(503)

    tenants = [request.json()["cache_salt"] for request in worker.requests]
    assert status == 200
    assert refused > 0
    assert tenants.index(DIGESTS.of("polite")) <= 4 + _TENANTS  # the running ones, one turn each
