import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from loadtest.chaos.faults import Kind
from loadtest.chaos.proxy import FaultProxy, Strike
from loadtest.load.answer import Answer, Ending, read_answer
from loadtest.load.client import Client, Sending
from tests.fakes.worker import FakeWorker

SLOW = {"chunks": 6, "gap_seconds": 0.02}  # so that the events come in reads of their own


@pytest.fixture
async def proxy(worker: FakeWorker) -> AsyncIterator[FaultProxy]:
    made = FaultProxy(worker.port)
    await made.listen()
    yield made
    await made.close()


async def ask(proxy: FaultProxy, *, fake: dict[str, Any] = SLOW, seconds: float = 4.0) -> Answer:
    body = {"model": "fake-model", "messages": [], "stream": True, "fake": fake}
    url = f"http://127.0.0.1:{proxy.port}"
    async with Client(url, limit_seconds=seconds, connections="fresh") as client:
        asked = Sending("/v1/chat/completions", json.dumps(body).encode(), time.monotonic_ns())
        return read_answer(await client.send(asked))


async def test_without_a_fault_everything_passes(worker: FakeWorker, proxy: FaultProxy) -> None:
    answer = await ask(proxy)

    assert (answer.ending, len(answer.arrivals)) == (Ending.DONE, 6)
    assert len(worker.requests) == 1


@pytest.mark.parametrize("passed", [0, 40, 700])
@pytest.mark.parametrize(
    ("kind", "endings"),
    [
        (Kind.RESET_ANSWER, {Ending.NONE}),
        (Kind.CUT_ANSWER, {Ending.NONE}),
        (Kind.HANG_ANSWER, {Ending.HUNG}),
        # aiohttp waits on where noise in a chunk is followed by the connection's end.
        (Kind.GARBAGE, {Ending.NONE, Ending.HUNG}),
    ],
)
async def test_a_strike_hits_one_answer_after_what_it_lets_pass(
    proxy: FaultProxy, kind: Kind, endings: set[Ending], passed: int
) -> None:
    strike = Strike(kind, passed)
    proxy.strike(strike)

    hit = await ask(proxy, seconds=0.4)
    next_one = await ask(proxy)

    assert strike.hit.is_set()
    assert hit.ending in endings
    assert len(hit.arrivals) < 6
    assert next_one.ending is Ending.DONE


async def test_a_bad_frame_stands_between_good_ones(proxy: FaultProxy) -> None:
    proxy.strike(Strike(Kind.BAD_FRAME, 600))

    answer = await ask(proxy)

    assert answer.ending is Ending.SEVERAL  # a client would take it for an error
    assert len(answer.arrivals) == 6


async def test_an_answer_that_is_too_short_leaves_the_strike_to_the_next(
    proxy: FaultProxy,
) -> None:
    strike = Strike(Kind.CUT_ANSWER, 5_000)
    proxy.strike(strike)

    short = await ask(proxy, fake={"chunks": 1})
    await asyncio.sleep(0.02)  # the proxy sees the end of that connection
    long = await ask(proxy, fake={"chunks": 100})

    assert short.ending is Ending.DONE
    assert long.ending is Ending.NONE
    assert strike.hit.is_set()


async def test_a_strike_that_is_withdrawn_hits_nothing(proxy: FaultProxy) -> None:
    strike = Strike(Kind.RESET_ANSWER, 0)
    proxy.strike(strike)

    proxy.withdraw(strike)

    assert (await ask(proxy)).ending is Ending.DONE
    assert not strike.hit.is_set()


async def test_a_probe_of_health_is_not_what_a_strike_waits_for(proxy: FaultProxy) -> None:
    strike = Strike(Kind.RESET_ANSWER, 0)
    proxy.strike(strike)

    async with Client(f"http://127.0.0.1:{proxy.port}", limit_seconds=1.0) as client:
        status, _ = await client.get("/health")

    assert status == 200
    assert not strike.hit.is_set()


async def test_what_was_frozen_goes_on_where_it_was(proxy: FaultProxy) -> None:
    asked = asyncio.create_task(ask(proxy))
    await asyncio.sleep(0.05)
    proxy.freeze()
    await asyncio.sleep(0.3)
    was_done = asked.done()
    proxy.thaw()

    answer = await asked

    assert not was_done
    assert (answer.ending, len(answer.arrivals)) == (Ending.DONE, 6)


async def test_connections_to_a_frozen_proxy_wait(proxy: FaultProxy) -> None:
    proxy.freeze()
    asked = asyncio.create_task(ask(proxy))
    await asyncio.sleep(0.05)
    proxy.thaw()

    assert (await asked).ending is Ending.DONE


async def test_all_connections_are_reset_and_new_ones_for_a_while(
    worker: FakeWorker, proxy: FaultProxy
) -> None:
    running = asyncio.create_task(ask(proxy, fake={"chunks": 50, "gap_seconds": 0.05}))
    await asyncio.sleep(0.05)
    proxy.reset_new(True)
    proxy.reset_all()

    struck, refused = await running, await ask(proxy)
    proxy.reset_new(False)
    later = await ask(proxy)

    assert [struck.ending, refused.ending] == [Ending.NONE, Ending.NONE]
    assert later.ending is Ending.DONE
    assert len(worker.requests) == 2


async def test_a_closed_proxy_refuses_and_listens_on_the_same_port_again(proxy: FaultProxy) -> None:
    port = proxy.port
    await proxy.close()

    refused = await ask(proxy)
    await proxy.listen()
    later = await ask(proxy)

    assert refused.error == "ClientConnectorError"
    assert (later.ending, proxy.port) == (Ending.DONE, port)


async def test_connections_to_a_lost_worker_are_reset(
    worker: FakeWorker, proxy: FaultProxy
) -> None:
    await worker.stop()

    assert (await ask(proxy)).ending is Ending.NONE
