"""What a request leaves behind goes at once, by counting references: no cycle keeps any of it.

The garbage collector runs rarely in a gateway (gateway/server.py), and for thousands of streams a
round is long. A cycle would keep a request's body and its text until then.
"""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, MESSAGES, RESPONSES, Api
from tests.integration.running import RunningGateway, running_gateway
from tests.integration.waiting import eventually

_REQUESTS = 5
_PACINGS: dict[str, dict[str, Any]] = {
    "off": {"mode": "off"},
    "smooth": {"mode": "smooth"},
    "private": {
        "mode": "private",
        "private_tick_ms": 10,
        "private_start_ms": 10,
        "private_least_seconds": 0.05,
    },
}
Ask = Callable[[RunningGateway], Coroutine[None, None, None]]


def _posting(status: int, api: Api = CHAT, **body: Any) -> Ask:
    async def ask(gateway: RunningGateway) -> None:
        answer = await gateway.client.post(api.path, json=api.body(**body))
        assert answer.status_code == status

    return ask


async def _leave(gateway: RunningGateway) -> None:
    """Leave a stream in its middle."""
    body = CHAT.body(stream=True, fake={"chunks": 100, "gap_seconds": 0.02})
    async with gateway.client.stream("POST", CHAT.path, json=body) as answer:
        async for _ in answer.aiter_bytes():
            break


async def _scrape(gateway: RunningGateway) -> None:
    assert (await gateway.client.get("/metrics")).status_code == 200


_WAYS = {
    "whole": _posting(200),
    "stream": _posting(200, stream=True),
    "stream of two": _posting(200, stream=True, n=2),
    "stream of responses": _posting(200, RESPONSES, stream=True),
    "stream of messages": _posting(200, MESSAGES, stream=True),
    "refused": _posting(400, stream="yes"),
    "refused by the worker": _posting(422, fake={"status": 422}),
    "failed by the worker": _posting(502, stream=True, fake={"drop_after_headers": True}),
    "cut short": _posting(200, stream=True, fake={"drop_after_chunks": 3}),
    "failed in mid-stream": _posting(200, stream=True, fake={"error_frame_after_chunks": 3}),
    "left": _leave,
    "metrics": _scrape,
}


@pytest.mark.parametrize("pacing", _PACINGS.values(), ids=_PACINGS)
@pytest.mark.parametrize("ask", _WAYS.values(), ids=_WAYS)
async def test_a_request_leaves_no_cycle_behind(
    worker: FakeWorker, ask: Ask, pacing: dict[str, Any]
) -> None:
    upstream = {"breaker_failures": 1000}
    async with running_gateway(worker, pacing=pacing, upstream=upstream) as gateway:
        await ask(gateway)  # what is built once

        with _garbage() as garbage:
            for _ in range(_REQUESTS):
                await ask(gateway)
            await eventually(lambda: gateway.metric("gateway_requests_in_flight") == 0)
            await asyncio.sleep(0.05)  # connections close, cancelled tasks end

        assert _ours(garbage) == set()


async def test_a_cycle_would_be_seen(worker: FakeWorker) -> None:
    async with running_gateway(worker):
        with _garbage() as garbage:
            entry = _Ring()
            entry.ring = entry
            del entry

    assert [type(one) for one in garbage if isinstance(one, _Ring)] == [_Ring]


class _Ring:
    ring: "_Ring"


@contextmanager
def _garbage() -> Iterator[list[object]]:
    """What only the garbage collector finds of what the block leaves behind."""
    found: list[object] = []
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def _ours(garbage: list[object]) -> set[str]:
    """What of it is the gateway's own, by type."""
    types = {type(one) for one in garbage}
    return {kind.__qualname__ for kind in types if kind.__module__.startswith("gateway")}
