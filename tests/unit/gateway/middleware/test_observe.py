import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.middleware import RECORD, Observe
from gateway.types import (
    Acceptance,
    Headers,
    RequestRecord,
    SourceCount,
    Trace,
    Usage,
    WorkerId,
)
from tests.unit.gateway.json_log import JsonLog, json_log

CHAT = "/v1/chat/completions"
Answer = Callable[[RequestRecord, Send], Awaitable[None]]


@pytest.fixture
def log() -> Iterator[JsonLog]:
    with json_log() as configured:
        yield configured


class Observed:
    """An observed app that answers as a test says."""

    def __init__(self, answer: Answer) -> None:
        self.counted: list[RequestRecord] = []
        self.sent: list[Message] = []
        self._answer = answer
        self._app = Observe(
            self._run,
            endpoints=[CHAT],
            quiet=["/metrics"],
            count=lambda record, now: self.counted.append(record),
        )

    async def get(self, path: str = CHAT, *headers: tuple[bytes, bytes]) -> list[Message]:
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
        await self._app(scope, self._receive, self._send)
        return self.sent

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope[RECORD], send)

    async def _receive(self) -> Message:
        raise AssertionError("nobody reads here")

    async def _send(self, message: Message) -> None:
        self.sent.append(message)


async def ok(record: RequestRecord, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
    await send({"type": "http.response.body", "body": b"x"})


def request_id(messages: list[Message]) -> bytes:
    headers: dict[bytes, bytes] = dict(messages[0]["headers"])
    return headers[b"x-request-id"]


async def test_every_response_has_an_id(log: JsonLog) -> None:
    messages = await Observed(ok).get()

    assert messages[0]["headers"][0] == (b"a", b"b")
    assert re.fullmatch(rb"[0-9a-f]{32}", request_id(messages))
    assert log.of("request")[0]["request_id"] == request_id(messages).decode()


async def test_a_clients_id_is_kept() -> None:
    messages = await Observed(ok).get(CHAT, (b"x-request-id", b"abc:1.2_3-4"))

    assert request_id(messages) == b"abc:1.2_3-4"


@pytest.mark.parametrize(
    "sent", [b"", b"a b", b"a\nb", b"x" * 129, b"\xff", b'"', b"a\n"], ids=repr
)
async def test_an_invalid_id_is_replaced(sent: bytes) -> None:
    messages = await Observed(ok).get(CHAT, (b"x-request-id", sent))

    assert re.fullmatch(rb"[0-9a-f]{32}", request_id(messages))


async def test_the_access_line_is_written_when_the_request_ends(log: JsonLog) -> None:
    released = asyncio.Event()

    async def stream(record: RequestRecord, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        await released.wait()
        await send({"type": "http.response.body", "body": b"x"})

    observed = Observed(stream)
    task = asyncio.create_task(observed.get())
    await asyncio.sleep(0.05)
    assert (log.of("request"), observed.counted) == ([], [])

    released.set()
    await task

    (line,) = log.of("request")
    assert line["duration_seconds"] >= 0.05
    assert len(observed.counted) == 1


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/chat/completions", "/chat/completions"),
        ("/a\n{\x1b[31m\x9b}", "/a\\n{\\x1b[31m\\x9b}"),
        ("/\u2028é", "/\\u2028\\xe9"),
        ("/" + "x" * 5000, "/" + "x" * 99),
        ("\n" * 5000, "\\n" * 50),
    ],
    ids=["forgotten-v1", "control", "unicode", "long", "long-escaped"],
)
async def test_an_unknown_path_is_logged_but_is_no_label(
    log: JsonLog, path: str, shown: str
) -> None:
    observed = Observed(ok)

    await observed.get(path)

    assert log.of("request")[0]["path"] == shown
    assert observed.counted[0].endpoint == "other"


async def test_the_access_line_has_all_known_facts(log: JsonLog) -> None:
    async def answer(record: RequestRecord, send: Send) -> None:
        record.model, record.tenant, record.key_id, record.stream = "m", "acme", "k1", True
        record.attempts, record.queued_seconds = 2, 0.125
        record.first_token_seconds = record.started_seconds + 0.5
        record.usage = Usage(7, 5, 2)
        record.acceptance = Acceptance(4, 2.5, {"native": SourceCount(10, 6)})
        record.outcome = "completed"
        await ok(record, send)

    await Observed(answer).get()

    (line,) = log.of("request")
    duration, stamp = line.pop("duration_seconds"), line.pop("timestamp")
    identity = line.pop("request_id")
    assert duration >= 0
    assert stamp
    assert identity
    assert line == {
        "event": "request",
        "level": "info",
        "method": "POST",
        "path": CHAT,
        "status": 200,
        "outcome": "completed",
        "model": "m",
        "tenant": "acme",
        "key": "k1",
        "stream": True,
        "attempts": 2,
        "queued_seconds": 0.125,
        "ttft_seconds": 0.5,
        "tokens_in": 7,
        "tokens_out": 5,
        "tokens_cached": 2,
        "drafted": 10,
        "accepted": 6,
        "acceptance_length": 2.5,
    }


async def test_acceptance_without_a_drafted_step_has_no_length(log: JsonLog) -> None:
    async def answer(record: RequestRecord, send: Send) -> None:
        record.acceptance = Acceptance(0, None, {})
        await ok(record, send)

    await Observed(answer).get()

    assert "acceptance_length" not in log.of("request")[0]


async def test_probes_and_scrapes_are_quiet(log: JsonLog) -> None:
    observed = Observed(ok)

    await observed.get("/metrics")

    assert observed.counted == []
    assert log.of("request")[0]["level"] == "debug"


async def test_a_crash_is_answered_with_500_and_no_details(log: JsonLog) -> None:
    async def crash(record: RequestRecord, send: Send) -> None:
        raise ZeroDivisionError("at /opt/secret.py")

    observed = Observed(crash)
    start, body = await observed.get()

    assert start["status"] == 500
    assert dict(start["headers"])[b"content-length"] == str(len(body["body"])).encode()
    assert json.loads(body["body"])["error"]["type"] == "server_error"
    assert b"/opt" not in body["body"]
    assert observed.counted[0].outcome == "internal_error"
    assert "ZeroDivisionError" in log.of("request_crashed")[0]["exception"]


async def test_after_a_crash_in_mid_answer_nothing_more_is_sent(log: JsonLog) -> None:
    async def crash(record: RequestRecord, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        raise ZeroDivisionError

    observed = Observed(crash)
    messages = await observed.get()

    assert len(messages) == 1
    assert log.of("request")[0]["outcome"] == "internal_error"


async def test_a_cancelled_request_is_counted_as_cancelled(log: JsonLog) -> None:
    async def hang(record: RequestRecord, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        await asyncio.Event().wait()

    observed = Observed(hang)
    task = asyncio.create_task(observed.get())
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled()
    assert observed.counted[0].outcome == "cancelled"


async def test_a_disconnect_before_any_answer_is_logged_as_499(log: JsonLog) -> None:
    async def nothing(record: RequestRecord, send: Send) -> None:
        pass

    await Observed(nothing).get()

    (line,) = log.of("request")
    assert (line["status"], line["outcome"]) == (499, "cancelled")


async def test_concurrent_requests_are_logged_with_their_own_ids(log: JsonLog) -> None:
    async def answer(record: RequestRecord, send: Send) -> None:
        await asyncio.sleep(0.01)
        await ok(record, send)

    tasks = [
        asyncio.create_task(Observed(answer).get(CHAT, (b"x-request-id", name)))
        for name in (b"one", b"two", b"three")
    ]
    await asyncio.gather(*tasks)

    assert sorted(line["request_id"] for line in log.of("request")) == ["one", "three", "two"]


async def test_other_protocols_pass() -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def nothing(*_: object) -> Message:
        raise AssertionError

    inner: ASGIApp = app
    observe = Observe(inner, endpoints=[], quiet=[], count=lambda record, now: None)
    await observe({"type": "lifespan"}, nothing, nothing)  # type: ignore[arg-type]  # never called

    assert seen == [{"type": "lifespan"}]


async def test_a_trace_gets_the_record_and_its_id_is_logged(
    log: JsonLog,
) -> None:
    begun: list[tuple[str, str]] = []
    ended: list[RequestRecord] = []

    class Traced:
        trace_id = "4bf9"

        def queued(self, seconds: float) -> None:
            raise AssertionError

        def attempt(self, worker: WorkerId) -> AbstractContextManager[Mapping[str, str]]:
            raise AssertionError

        def end(self, record: RequestRecord) -> None:
            ended.append(record)

    def begin(method: str, path: str, headers: Headers) -> Trace:
        begun.append((method, path))
        return Traced()

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        await ok(scope[RECORD], send)

    async def nothing(message: Message | None = None) -> Message:
        return {}

    observe = Observe(
        inner,
        endpoints=[CHAT],
        quiet=["/metrics"],
        count=lambda record, now: None,
        begin_trace=begin,
    )
    for path in (CHAT, "/metrics"):
        scope = {"type": "http", "method": "POST", "path": path, "headers": []}
        await observe(scope, nothing, nothing)  # type: ignore[arg-type]  # it sends into nothing

    assert begun == [("POST", CHAT)]
    assert [record.status for record in ended] == [200]
    assert log.of("request")[0]["trace_id"] == "4bf9"
