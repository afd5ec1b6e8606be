"""A stream that breaks ends in exactly one error event, and the SDK raises it."""

import json
from typing import Any

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.apis import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Api
from tests.integration.running import RunningGateway, running_gateway

_BREAKS: dict[str, tuple[dict[str, Any], str]] = {
    "closed": ({"drop_after_chunks": 3}, "worker_lost"),
    "reset": ({"drop_after_chunks": 3, "reset": True}, "worker_lost"),
    "half_a_frame": ({"cut_in_frame": 3}, "worker_lost"),
    "half_a_frame_then_proper_end": ({"cut_in_frame": 3, "clean_end": True}, "worker_lost"),
    "half_a_character": ({"cut_in_utf8": 3}, "worker_lost"),
    "half_a_character_then_proper_end": ({"cut_in_utf8": 3, "clean_end": True}, "worker_lost"),
    "proper_end_too_early": ({"drop_after_chunks": 3, "clean_end": True}, "worker_lost"),
    "no_last_frame": ({"chunks": 3, "no_done": True}, "worker_lost"),
    "not_json": ({"bad_json_frame": 3}, "bad_gateway"),
    "engine_error": ({"error_frame_after_chunks": 3}, "bad_gateway"),
    "hang": ({"hang_after_chunks": 3}, "timeout"),
}
# The connection is read in the same way for all APIs; what ends a stream depends on the API.
_OF_EACH_API = ("closed", "no_last_frame", "not_json", "engine_error")
_CASES = [(CHAT, name) for name in _BREAKS] + [
    (api, name) for api in (COMPLETIONS, RESPONSES, MESSAGES) for name in _OF_EACH_API
]


def _error_events(raw: bytes) -> list[dict[str, Any]]:
    """The `error` member of every data line that has one."""
    lines = [line[6:] for line in raw.split(b"\n") if line.startswith(b"data: {")]
    events = [json.loads(line) for line in lines]
    return [event["error"] for event in events if event.get("error")]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("api", "name"), _CASES, ids=[f"{a.name}-{n}" for a, n in _CASES])
async def test_broken_stream_ends_in_one_error_event(
    shared_gateway: RunningGateway, api: Api, name: str
) -> None:
    script, code = _BREAKS[name]
    before = _endings(shared_gateway)
    pieces: list[str] = []

    answer = await shared_gateway.client.post(api.path, json=api.body(stream=True, fake=script))
    with pytest.raises(api.error) as raised:
        await api.read_stream(shared_gateway.url, {"fake": script}, pieces)

    frames = [frame for frame in answer.content.split(b"\n\n") if frame]
    assert answer.status_code == 200
    assert answer.content.endswith(b"\n\n")
    assert [event["code"] for event in _error_events(answer.content)] == [code]
    assert _error_events(frames[-1]) != []
    assert api.end not in answer.content
    assert "".join(pieces) in (" hello" * 3, " naïve 🙂" * 3)  # however pacing has cut it
    assert "ngine" in str(raised.value)
    assert _endings(shared_gateway) == (before[0], before[1] + 2)


def _endings(gateway: RunningGateway) -> tuple[float, float]:
    """Streams that were completed, and that ended in an error event."""
    name = "gateway_stream_terminations_total"
    return gateway.metric(name, outcome="completed"), gateway.metric(name, outcome="error_event")


async def test_event_over_the_limit_ends_in_one_error_event(worker: FakeWorker) -> None:
    script = {"huge_frame_bytes": 200_000}
    async with running_gateway(worker, stream={"max_frame_bytes": 100_000}) as gateway:
        answer = await gateway.client.post(CHAT.path, json=CHAT.body(stream=True, fake=script))
        with pytest.raises(CHAT.error, match="too large"):
            await CHAT.read_stream(gateway.url, {"fake": script}, [])

        assert [event["code"] for event in _error_events(answer.content)] == ["bad_gateway"]
        assert len(answer.content) < 10_000


async def test_first_event_over_the_limit_is_answered_502(worker: FakeWorker) -> None:
    script = {"huge_frame_bytes": 200_000}
    async with running_gateway(worker, stream={"max_frame_bytes": 100_000}) as gateway:
        body = COMPLETIONS.body(stream=True, fake=script)
        answer = await gateway.client.post(COMPLETIONS.path, json=body)

    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "bad_gateway"


async def test_event_below_the_limit_passes_whole(worker: FakeWorker) -> None:
    script = {"huge_frame_bytes": 3_000_000, "chunks": 2}
    pieces: list[str] = []
    async with running_gateway(worker) as gateway:
        await CHAT.read_stream(gateway.url, {"fake": script}, pieces)

    assert "".join(pieces) == " hello".ljust(3_000_000, "x") + " hello"
