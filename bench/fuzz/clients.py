"""Plays hostile requests on raw sockets, many at once, and judges how each of them ends."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from bench.fuzz.findings import Finding, Findings
from bench.fuzz.http import NotHttpError, Reply, ReplyReader, count_requests
from bench.fuzz.requests import RequestCase, Wire
from bench.fuzz.sockets import RawConnection, connected
from tests.fakes.worker import FakeWorker

_AT_ONCE = 32
_BATCH = 640
_ANSWER_SECONDS = 10.0
"""Within it a good request must be answered, and a connection closed that the client has ended."""
_PATIENCE_SECONDS = 0.15
"""How long the client of a bad request waits for a refusal."""
_LINGER_SECONDS = 0.02
"""How long it then waits for another answer, which would be to a smuggled request."""
_TAG = re.compile(rb"r(?:cut|two)-\d{2}-\d{5}|r\d{7}")


async def play_clients(
    port: int, worker: FakeWorker, cases: Iterable[RequestCase], *, key: str
) -> Findings:
    """Play `cases` against the gateway on `port`, which has `worker` behind it."""
    findings = Findings()
    remaining = iter(cases)
    while batch := list(islice(remaining, _BATCH)):
        worker.forget_requests()
        await _play_batch(port, batch, findings)
        good = Wire(key, "good")
        await _play(port, RequestCase("good", (good.post(good.body()),), answers=1), findings)
        await asyncio.sleep(_LINGER_SECONDS)  # the last ones reach the worker
        _count_smuggled(worker, batch, findings)
        findings.cases += len(batch)
    return findings


async def _play_batch(port: int, batch: Sequence[RequestCase], findings: Findings) -> None:
    remaining = iter(batch)

    async def play_next() -> None:
        for case in remaining:
            await _play(port, case, findings)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(play_next())


async def _play(port: int, case: RequestCase, findings: Findings) -> None:
    try:
        async with connected(port, is_head=case.data.startswith(b"HEAD ")) as connection:
            await _exchange(connection, case)
    except NotHttpError as error:
        findings.add(Finding("wrong_answer", case.tag, str(error)))
        return
    except OSError as error:
        findings.add(Finding("crash", case.tag, f"no connection: {error}"))
        return
    replies = connection.replies.replies
    findings.by_status[str(replies[0].status) if replies else "closed"] += 1
    if case.ending != "reset" and not connection.is_closed:
        findings.add(Finding("hang", case.tag, f"not closed after the client's end: {case.data!r}"))
    for finding in _judge(case, replies):
        findings.add(finding)


async def _exchange(connection: RawConnection, case: RequestCase) -> None:
    for number, piece in enumerate(case.pieces):
        if number:
            await asyncio.sleep(0.001)  # so that the pieces are separate reads
        await connection.send(piece)
    if case.ending == "reset":
        connection.reset()
        return
    if case.answers is not None:
        await connection.read_until(_has(case.answers), seconds=_ANSWER_SECONDS)
    elif case.ending == "answer":
        await connection.read_until(_has(1), seconds=_PATIENCE_SECONDS)
        await connection.read_until(_has(2), seconds=_LINGER_SECONDS)
    connection.finish_sending()
    await connection.read_until(_never, seconds=_ANSWER_SECONDS)


def _has(answers: int) -> Callable[[ReplyReader], bool]:
    return lambda replies: replies.whole >= answers


def _never(_: ReplyReader) -> bool:
    return False


def _judge(case: RequestCase, replies: Sequence[Reply]) -> Iterable[Finding]:
    for reply in replies:
        if reply.status >= 500:
            what = f"{reply.status} {bytes(reply.body)!r} to {case.data[:2000]!r}"
            yield Finding("own_5xx", case.tag, what)
        elif not (200 <= reply.status < 300 or 400 <= reply.status < 500):
            yield Finding("wrong_answer", case.tag, f"{reply.status} to {case.data[:2000]!r}")
    if case.answers is not None:
        good = sum(reply.is_whole and 200 <= reply.status < 300 for reply in replies)
        if good != case.answers:
            seen = [(reply.status, reply.is_whole, bytes(reply.body[:200])) for reply in replies]
            yield Finding("wrong_answer", case.tag, f"{seen} to {case.pieces!r}")


def _count_smuggled(worker: FakeWorker, batch: Sequence[RequestCase], findings: Findings) -> None:
    """Find cases of which more requests reached the worker than a strict parser sees in them.

    Attempts at the same request have the same id. A request with two tags is a mutated one, and
    counts for none.
    """
    arrived: defaultdict[str, set[str]] = defaultdict(set)
    for request in worker.requests:
        request_id = request.headers.get("x-request-id", "")
        tags = set(_TAG.findall(request_id.encode() + b" " + request.body))
        if len(tags) == 1:
            arrived[tags.pop().decode()].add(request_id)
    for case in batch:
        count = len(arrived[case.tag])
        if count > 1 and count > count_requests(case.data):
            findings.add(Finding("smuggled", case.tag, f"{count} requests in {case.pieces!r}"))
