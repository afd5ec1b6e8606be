"""A finished request is freed by reference counting: it leaves no reference cycle.

The garbage collector runs rarely in a gateway (gateway/server.py), because a collection is slow
with thousands of streams. A cycle would keep a request's body and its text until then.
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


_STREAMS = {
    "stream": _posting(200, stream=True),
    "stream of responses": _posting(200, RESPONSES, stream=True),
    "stream of messages": _posting(200, MESSAGES, stream=True),
    "cut short": _posting(200, stream=True, fake={"drop_after_chunks": 3}),
    "failed in mid-stream": _posting(200, stream=True, fake={"error_frame_after_chunks": 3}),
    "left": _leave,
}
_UNPACED = {
    "whole": _posting(200),
    "stream of two": _posting(200, stream=True, n=2),
    "refused": _posting(400, stream="yes"),
    "refused by the worker": _posting(422, fake={"status": 422}),
    "failed by the worker": _posting(502, stream=True, fake={"drop_after_headers": True}),
    "metrics": _scrape,
}


@pytest.mark.parametrize("mode", _PACINGS)
async def test_requests_leave_no_cycles_behind(worker: FakeWorker, mode: str) -> None:
    asks = {**_STREAMS, **_UNPACED} if mode == "off" else _STREAMS
    upstream = {"breaker_failures": 1000}
    left = {}
    async with running_gateway(worker, pacing=_PACINGS[mode], upstream=upstream) as gateway:
        for name, ask in asks.items():
            await ask(gateway)  # builds what is built once

            with _garbage() as garbage:
                for _ in range(_REQUESTS):
                    await ask(gateway)
                await eventually(lambda: gateway.metric("gateway_inflight_requests") == 0)
                await asyncio.sleep(0.05)  # connections close, cancelled tasks end
            left[name] = _ours(garbage)

    assert left == {name: set() for name in asks}


async def test_a_cycle_would_be_found(worker: FakeWorker) -> None:
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
    """The objects that the block leaves for the garbage collector."""
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
    """The types of the gateway's own objects in `garbage`."""
    types = {type(one) for one in garbage}
    return {kind.__qualname__ for kind in types if kind.__module__.startswith("gateway")}
