"""A worker that dies before a request's first byte: the request runs again, and succeeds."""

import asyncio

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT
from tests.integration.running import running_gateway
from tests.integration.waiting import eventually

_TEXT = " hello" * 8


@pytest.mark.parametrize("headers", [False, True], ids=["before_headers", "after_headers"])
async def test_stream_is_replayed_on_the_other_worker(headers: bool) -> None:
    script = {"stall_after_chunks": 0} if headers else {}
    pieces: list[str] = []
    async with FakeWorker() as one, FakeWorker() as two, running_gateway(one, two) as gateway:
        one.state.stall = two.state.stall = not headers
        reading = asyncio.create_task(CHAT.read_stream(gateway.url, {"fake": script}, pieces))
        await eventually(lambda: one.active + two.active == 1)
        dying, other = (one, two) if one.active else (two, one)

        await dying.stop()
        await eventually(lambda: other.active == 1)
        other.state.stall = False
        await reading

        assert "".join(pieces) == _TEXT
        assert len(other.requests) == 1
        assert other.requests[0].body == dying.requests[0].body
        assert gateway.metric("gateway_stream_terminations_total", outcome="completed") == 1
        assert gateway.metric("gateway_stream_terminations_total", outcome="error_event") == 0


async def test_request_waits_for_its_only_worker_to_come_back(worker: FakeWorker) -> None:
    async with running_gateway(worker) as gateway:
        worker.state.stall = True
        asking = asyncio.create_task(CHAT.ask(gateway.url, {}))
        await eventually(lambda: worker.active == 1)

        await worker.stop()
        name = f"127.0.0.1:{worker.port}"
        await eventually(lambda: gateway.metric("gateway_worker_up", worker=name) == 0)
        worker.state.stall = False
        await worker.start()

        assert await asking == _TEXT
        assert len(worker.requests) == 2


async def test_many_requests_survive_the_death_of_one_worker() -> None:
    async with FakeWorker() as one, FakeWorker() as two, running_gateway(one, two) as gateway:
        one.state.stall = two.state.stall = True
        asking = [
            asyncio.create_task(gateway.client.post(CHAT.path, json=CHAT.body())) for _ in range(40)
        ]
        await eventually(lambda: one.active + two.active == 40)

        await one.stop()
        two.state.stall = False
        answers = await asyncio.gather(*asking)

        assert [answer.status_code for answer in answers] == [200] * 40


async def test_replays_of_all_requests_share_a_budget(worker: FakeWorker) -> None:
    body = CHAT.body(fake={"drop_before_headers": True})
    admission = {"max_running_requests": 3}
    upstream = {"retry_ratio": 0.0, "breaker_failures": 1000}
    async with running_gateway(worker, admission=admission, upstream=upstream) as gateway:
        statuses = [(await gateway.client.post(CHAT.path, json=body)).status_code for _ in range(6)]

    assert statuses == [502] * 6
    assert len(worker.requests) == 6 + 3  # as many replays as requests may run at once


async def test_dying_worker_does_not_use_up_the_replays(worker: FakeWorker) -> None:
    async with running_gateway(worker, request={"max_replays": 1}) as gateway:
        await worker.stop()  # closes the connection that the gateway keeps
        await worker.start()
        worker.state.fail_next_connections = 10

        answer = await gateway.client.post(CHAT.path, json=CHAT.body())

    assert answer.status_code == 200
    assert worker.state.fail_next_connections == 0


async def test_no_worker_within_the_wait_is_answered_503() -> None:
    absent = FakeWorker(port=1)
    request = {"wait_for_worker_seconds": 0.1}
    async with running_gateway(absent, wait_ready=False, request=request) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body())

    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "no_healthy_worker"
    assert int(answer.headers["retry-after"]) >= 1


async def test_stream_whose_wait_ends_after_a_keep_alive_gets_the_error_event() -> None:
    absent = FakeWorker(port=1)
    async with running_gateway(
        absent,
        wait_ready=False,
        request={"wait_for_worker_seconds": 0.25},
        stream={"keep_alive_seconds": 0.1},
    ) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(stream=True))
        with pytest.raises(CHAT.error, match="No engine"):
            await CHAT.read_stream(gateway.url, {}, [])

    assert answer.status_code == 200
    assert answer.content.startswith(b": keep-alive\n\n")
    assert answer.content.count(b'"code": "no_healthy_worker"') == 1
