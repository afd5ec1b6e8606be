"""Asks for hostile answers through the gateway, many at once, and judges how each request ends."""

import asyncio
import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

from bench.fuzz.answers import AnswerCase
from bench.fuzz.evil_worker import TAG, EvilWorker
from bench.fuzz.findings import Finding, Findings
from bench.fuzz.http import NotHttpError, Reply
from bench.fuzz.requests import Wire
from bench.fuzz.sockets import connected

AT_ONCE = 24
_BATCH = 480
_ANSWER_SECONDS = 15.0
_WORKERS_FAULT = frozenset((502, 503, 504))
_EVENT_END = re.compile(rb"\r?\n\r?\n|\r\r")
_LINE_END = re.compile(rb"\r\n|\n|\r")


async def play_workers(
    port: int,
    worker: EvilWorker,
    cases: Iterable[AnswerCase],
    *,
    key: str,
    at_once: int = AT_ONCE,
) -> Findings:
    """Play `cases` through the gateway on `port`, which has `worker` behind it."""
    findings = Findings()
    remaining = iter(cases)
    while batch := list(islice(remaining, _BATCH)):
        worker.cases = {case.tag.encode(): case for case in batch}
        waiting = iter(batch)

        async def ask_next(waiting: Iterator[AnswerCase] = waiting) -> None:
            for case in waiting:
                await _ask(port, case, key, findings)

        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(ask_next())
        findings.cases += len(batch)
    return findings


async def _ask(port: int, case: AnswerCase, key: str, findings: Findings) -> None:
    pacing = random.Random(case.tag).choice((b"off", b"off", b"smooth"))
    wire = Wire(key, case.tag)
    body = wire.body(stream=case.stream, max_tokens=8, prompt="a")
    try:
        async with connected(port) as connection:
            await connection.send(wire.post(body, b"x-pacing: " + pacing, path=case.path))
            await connection.read_until(lambda seen: seen.whole > 0, seconds=_ANSWER_SECONDS)
    except NotHttpError as error:
        findings.add(Finding("wrong_answer", case.tag, str(error)))
        return
    except OSError as error:
        findings.add(Finding("crash", case.tag, f"no connection: {error}"))
        return
    replies = connection.replies.replies
    findings.by_status[str(replies[0].status) if replies else "closed"] += 1
    if not connection.is_closed and not connection.replies.whole:
        findings.add(Finding("hang", case.tag, _shown(case, replies)))
        return
    for finding in _judge(case, replies):
        findings.add(finding)


def _judge(case: AnswerCase, replies: Sequence[Reply]) -> Iterator[Finding]:
    if not replies:
        yield Finding("wrong_ending", case.tag, f"closed without an answer: {_shown(case, ())}")
        return
    reply = replies[0]
    sent = b"".join(step for step in case.steps if isinstance(step, bytes))
    others = set(TAG.findall(reply.body)) - set(TAG.findall(sent)) - {case.tag.encode()}
    if others:
        yield Finding("crossed", case.tag, f"the answer to {others}: {_shown(case, replies)}")
    if reply.status == 500:
        yield Finding("own_5xx", case.tag, _shown(case, replies))
    elif flaw := _flaw_of(reply, case):
        yield Finding("wrong_ending", case.tag, f"{flaw}: {_shown(case, replies)}")


def _flaw_of(reply: Reply, case: AnswerCase) -> str | None:
    if not (200 <= reply.status < 300 or 400 <= reply.status < 500) and (
        reply.status not in _WORKERS_FAULT
    ):
        return f"status {reply.status}"
    if case.is_good and reply.status != 200:
        return "a good answer was refused"
    if not reply.is_whole:
        return None if _is_passed_through(reply) else "the answer is cut"
    if case.stream and reply.headers.get("content-type", "").startswith("text/event-stream"):
        return flaw_of_stream(bytes(reply.body), case.path, is_good=case.is_good)
    return None


def _is_passed_through(reply: Reply) -> bool:
    """Whether it is a very large answer, which the gateway does not hold: it can only be cut."""
    return reply.status == 200 and len(reply.body) > 2**20


def flaw_of_stream(body: bytes, path: str, *, is_good: bool) -> str | None:
    """What is wrong with how a stream ends; None if it ends once, by its last event.

    Args:
        body: All events.
        path: The endpoint, whose SDK decides what an end and an error are.
        is_good: Whether the worker sent a complete stream.
    """
    meanings = [_meaning_of(path, *event) for event in _events_of(body)]
    endings = [meaning for meaning in meanings if meaning != "other"]
    if len(endings) != 1:
        return f"{len(endings)} endings"
    if meanings[-1] == "other":
        return "events behind the end"
    if is_good and endings[0] == "error":
        return "an error in a good stream"
    return None


def _events_of(body: bytes) -> list[tuple[bytes, bytes]]:
    """Name and data of each event that has data; the others are not dispatched.

    Source: WHATWG HTML, section 9.2.6, "Interpreting an event stream".
    """
    events = []
    for text in _EVENT_END.split(body):
        name, data = b"", []
        for line in _LINE_END.split(text):
            field, _, value = line.partition(b":")
            if field == b"event":
                name = value.removeprefix(b" ")
            elif field == b"data":
                data.append(value.removeprefix(b" "))
        if b"".join(data):
            events.append((name, b"\n".join(data)))
    return events


def _meaning_of(path: str, name: bytes, data: bytes) -> Literal["end", "error", "other"]:
    """What the endpoint's official SDK takes an event for."""
    if path == "/v1/messages":
        return _OF_MESSAGES.get(name, "other")
    if path == "/v1/responses":
        kind = _member(data, "type")
        if kind in ("response.completed", "response.incomplete"):
            return "end"
        if kind in ("response.failed", "error"):
            return "error"
    elif data.startswith(b"[DONE]"):
        return "end"
    return "error" if _member(data, "error") else "other"


_OF_MESSAGES: dict[bytes, Literal["end", "error"]] = {b"message_stop": "end", b"error": "error"}


def _member(data: bytes, name: str) -> object:
    try:
        found = json.loads(data.decode(errors="replace"))  # text passes byte for byte
    except (ValueError, RecursionError):
        return None
    return found.get(name) if isinstance(found, dict) else None


def _shown(case: AnswerCase, replies: Sequence[Reply]) -> str:
    seen = [(reply.status, reply.is_whole, bytes(reply.body[-600:])) for reply in replies]
    steps = [step[:1500] if isinstance(step, bytes) else step for step in case.steps]
    asked = "stream" if case.stream else "whole"
    return f"{case.path} {asked} got {seen} for {steps} then {case.ending}"
