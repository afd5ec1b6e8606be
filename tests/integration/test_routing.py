"""Two workers, and requests that go where their text is known."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.script import Script
from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT
from tests.integration.running import RunningGateway, running_gateway
from tests.integration.waiting import eventually

_LONG = "All that is said of this. " * 200


@pytest.fixture
async def other() -> AsyncIterator[FakeWorker]:
    async with FakeWorker() as running:
        yield running


def _name(worker: FakeWorker) -> str:
    return f"127.0.0.1:{worker.port}"


async def _until_all_up(gateway: RunningGateway, *workers: FakeWorker) -> None:
    await eventually(
        lambda: all(gateway.metric("gateway_worker_up", worker=_name(w)) == 1 for w in workers)
    )


class _Conversation:
    """A conversation that grows with each turn."""

    def __init__(self, gateway: RunningGateway, name: str) -> None:
        self._gateway = gateway
        self._messages = [{"role": "user", "content": f"{name}: {_LONG}"}]

    async def ask(self, *, stream: bool = False, **fake: Any) -> None:
        """Take a turn."""
        body = CHAT.body(messages=self._messages, fake=fake, stream=stream)
        answer = await self._gateway.client.post(CHAT.path, json=body)
        assert answer.status_code == 200
        self._messages.append({"role": "assistant", "content": "Yes."})
        self._messages.append({"role": "user", "content": "And then?"})


def _expected(gateway: RunningGateway) -> float:
    return gateway.metric("gateway_routing_cached_tokens_total", kind="expected")


def _talks(worker: FakeWorker) -> set[str]:
    """The conversations that a worker has seen."""
    return {
        str(request.json()["messages"][0]["content"]).partition(":")[0]
        for request in worker.requests
    }


async def test_a_conversation_stays_with_its_worker(worker: FakeWorker, other: FakeWorker) -> None:
    async with running_gateway(worker, other) as gateway:
        await _until_all_up(gateway, worker, other)
        talks = [_Conversation(gateway, f"talk {at}") for at in range(12)]
        for _ in range(4):
            for talk in talks:
                await talk.ask()

        assert _talks(worker) | _talks(other) == {f"talk {at}" for at in range(12)}
        assert not _talks(worker) & _talks(other)
        assert min(len(_talks(worker)), len(_talks(other))) >= 2
        assert gateway.metric("gateway_routing_decisions_total", reason="cached") == 36


async def test_a_conversation_goes_on_when_its_worker_is_dead(
    worker: FakeWorker, other: FakeWorker
) -> None:
    async with running_gateway(worker, other, upstream={"probe_seconds": 60.0}) as gateway:
        await _until_all_up(gateway, worker, other)
        talks = [_Conversation(gateway, f"talk {at}") for at in range(6)]
        for talk in talks:
            await talk.ask()
        await other.stop()
        worker.forget_requests()

        for _ in range(2):
            for talk in talks:
                await talk.ask()

        assert len(_talks(worker)) == 6
        assert len(worker.requests) == 12


async def test_a_slow_worker_gets_less(worker: FakeWorker, other: FakeWorker) -> None:
    async with running_gateway(worker, other) as gateway:
        await _until_all_up(gateway, worker, other)
        worker.state.script = Script(chunks=12, gap_seconds=0.04)
        other.state.script = Script(chunks=12, gap_seconds=0.002)
        numbers = iter(range(500))

        async def client() -> None:
            for number in numbers:
                await _Conversation(gateway, f"talk {number}").ask(stream=True)
                if number == 300:  # it knows them by now
                    worker.forget_requests()
                    other.forget_requests()

        await asyncio.gather(*(client() for _ in range(16)))

        assert len(worker.requests) < 0.5 * len(other.requests)


async def test_what_a_worker_has_evicted_is_no_longer_expected_there(
    worker: FakeWorker, other: FakeWorker
) -> None:
    async with running_gateway(worker, other) as gateway:
        await _until_all_up(gateway, worker, other)
        talks = [_Conversation(gateway, f"talk {at}") for at in range(6)]
        for talk in talks:
            await talk.ask(prompt_tokens=1300)
        first = _expected(gateway)
        for talk in talks:
            await talk.ask(prompt_tokens=1300, cached_tokens=1200)
        second = _expected(gateway)
        for talk in reversed(talks):
            await talk.ask(prompt_tokens=1300, cached_tokens=16)
        third = _expected(gateway)

        assert first == 0
        assert second > 6 * 1000
        # The first miss on each worker shows that its older conversations are gone. Half of each
        # is still supposed where its hash says: another replica may have sent it there.
        assert third - second < 0.8 * second


async def test_the_old_rule_knows_no_prompts(worker: FakeWorker, other: FakeWorker) -> None:
    async with running_gateway(worker, other, routing={"rule": "least_loaded"}) as gateway:
        await _until_all_up(gateway, worker, other)
        talk = _Conversation(gateway, "talk")
        for _ in range(30):
            await talk.ask()

        assert len(worker.requests) >= 5
        assert len(other.requests) >= 5
        assert gateway.metric("gateway_routing_decisions_total", reason="least_loaded") == 30
