import json
import time
from typing import Any

import pytest

from loadtest.load.answer import Ending, read_answer
from loadtest.load.client import Client, Sending
from tests.fakes.worker import FakeWorker


def sending(fake: dict[str, Any], **behaviour: Any) -> Sending:
    messages = [{"role": "user", "content": "x"}]
    body = {"model": "fake-model", "messages": messages, "stream": True, "fake": fake}
    return Sending(
        path="/v1/chat/completions",
        body=json.dumps(body).encode(),
        due_ns=time.monotonic_ns(),
        **behaviour,
    )


async def ending_of(worker: FakeWorker, asked: Sending, *, limit_seconds: float = 5.0) -> Ending:
    async with Client(worker.url, limit_seconds=limit_seconds) as client:
        return read_answer(await client.send(asked)).ending


async def test_an_answer_is_recorded_with_the_time_of_each_read(worker: FakeWorker) -> None:
    async with Client(worker.url, limit_seconds=5.0) as client:
        recording = await client.send(sending({"chunks": 3, "gap_seconds": 0.01}))

    answer = read_answer(recording)
    clocks = [recording.due_ns, recording.sent_ns, *(at_ns for at_ns, _ in recording.packets)]
    assert answer.ending is Ending.DONE
    assert len(answer.arrivals) == 3
    assert clocks == sorted(clocks)
    assert recording.ended_ns >= clocks[-1]


@pytest.mark.parametrize(
    ("fake", "ending"),
    [
        ({"drop_before_headers": True}, Ending.NONE),
        ({"drop_after_chunks": 2, "reset": True}, Ending.NONE),
        ({"no_done": True}, Ending.NONE),
        ({"status": 503}, Ending.ERROR),
        ({"hang_after_chunks": 1}, Ending.HUNG),
        ({"hang_before_headers": True}, Ending.HUNG),
    ],
    ids=["dropped", "reset", "no end", "refused", "hangs in mid-answer", "hangs at once"],
)
async def test_a_failure_of_the_server_is_part_of_the_recording(
    worker: FakeWorker, fake: dict[str, Any], ending: Ending
) -> None:
    assert await ending_of(worker, sending(fake), limit_seconds=0.3) is ending


async def test_a_server_that_is_not_there_is_a_recording_too(worker: FakeWorker) -> None:
    await worker.stop()

    assert await ending_of(worker, sending({})) is Ending.NONE


async def test_a_client_that_leaves_is_no_failure(worker: FakeWorker) -> None:
    asked = sending({"hang_after_chunks": 1}, abort_seconds=0.1)

    assert await ending_of(worker, asked) is Ending.LEFT


async def test_the_time_to_leave_counts_from_when_the_request_was_due(worker: FakeWorker) -> None:
    asked = sending({"hang_after_chunks": 1}, abort_seconds=0.2)
    begin = time.monotonic()

    await ending_of(worker, asked)

    assert time.monotonic() - begin >= 0.15


async def test_a_slow_reader_takes_its_time(worker: FakeWorker) -> None:
    begin = time.monotonic()

    ending = await ending_of(worker, sending({"chunks": 40}, read_bytes_per_second=40_000))

    assert ending is Ending.DONE
    assert time.monotonic() - begin >= 0.2  # 40 events of some 250 bytes


async def test_a_key_and_headers_are_sent(worker: FakeWorker) -> None:
    async with Client(worker.url, key="secret", limit_seconds=5.0) as client:
        await client.send(sending({}, headers={"x-pacing": "off"}))

    (request,) = worker.requests
    assert request.headers["authorization"] == "Bearer secret"
    assert request.headers["x-pacing"] == "off"


async def test_connections_are_kept_or_fresh_as_configured(worker: FakeWorker) -> None:
    for connections, open_after in (("kept", 1), ("fresh", 0)):
        async with Client(worker.url, limit_seconds=5.0, connections=connections) as client:  # type: ignore[arg-type]  # both are allowed
            for _ in range(3):
                await client.send(sending({}))
            await client.get("/health")

            assert worker.connections == open_after
