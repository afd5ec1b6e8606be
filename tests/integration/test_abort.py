"""A client that disconnects ends its request, whether it is queued, waiting or streaming."""

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT
from tests.integration.connection import connect
from tests.integration.running import running_gateway
from tests.integration.waiting import eventually

_SLOW = {"chunks": 1000, "gap_seconds": 0.02}
_SILENT = {"hang_after_chunks": 0}
_NO_HEAD = {"hang_before_headers": True}


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_leaving_a_running_stream_aborts_it(worker: FakeWorker, reset: bool) -> None:
    async with running_gateway(worker) as gateway, connect(gateway.port) as connection:
        await connection.post(CHAT.path, CHAT.body(stream=True, fake=_SLOW))
        await connection.read_until(b"hello")

        connection.leave(reset=reset)

        await eventually(lambda: worker.requests[0].aborted)
        ended = {"endpoint": CHAT.path, "model": "fake-model", "outcome": "cancelled"}
        await eventually(lambda: gateway.metric("gateway_requests_total", **ended) == 1)
        assert gateway.metric("gateway_stream_terminations_total", outcome="cancelled") == 1
        assert gateway.metric("gateway_inflight_requests") == 0


async def test_leaving_before_the_first_token_aborts(worker: FakeWorker) -> None:
    async with running_gateway(worker) as gateway, connect(gateway.port) as connection:
        await connection.post(CHAT.path, CHAT.body(stream=True, fake=_SILENT))
        await eventually(lambda: worker.active == 1)

        connection.leave()

        await eventually(lambda: worker.requests[0].aborted)
        assert len(worker.requests) == 1


async def test_leaving_before_the_answer_of_a_unary_call_aborts(worker: FakeWorker) -> None:
    async with running_gateway(worker) as gateway, connect(gateway.port) as connection:
        await connection.post(CHAT.path, CHAT.body(fake=_NO_HEAD))
        await eventually(lambda: worker.active == 1)

        connection.leave()

        await eventually(lambda: worker.requests[0].aborted)
        assert len(worker.requests) == 1


async def test_leaving_the_queue_never_reaches_the_worker(worker: FakeWorker) -> None:
    one_at_a_time = {"max_running_requests": 1}
    async with (
        running_gateway(worker, admission=one_at_a_time) as gateway,
        connect(gateway.port) as first,
        connect(gateway.port) as queued,
    ):
        await first.post(CHAT.path, CHAT.body(stream=True, fake=_SLOW))
        await first.read_until(b"hello")
        await queued.post(CHAT.path, CHAT.body(stream=True))
        await eventually(lambda: gateway.metric("gateway_queue_depth") == 1)

        queued.leave()

        await eventually(lambda: gateway.metric("gateway_queue_depth") == 0)
        first.leave()
        await eventually(lambda: gateway.metric("gateway_inflight_requests") == 0)
        assert len(worker.requests) == 1


async def test_leaving_while_no_worker_is_up_gives_the_slot_back() -> None:
    absent = FakeWorker(port=1)
    async with (
        running_gateway(absent, wait_ready=False) as gateway,
        connect(gateway.port) as connection,
    ):
        await connection.post(CHAT.path, CHAT.body(stream=True))
        await eventually(lambda: gateway.metric("gateway_inflight_requests") == 1)

        connection.leave()

        await eventually(lambda: gateway.metric("gateway_inflight_requests") == 0)
