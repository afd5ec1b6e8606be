"""Turns a script into the writes, waits and faults of one stream, then plays them.

`plan_stream` is pure: it says what happens in which order. `play` does it on a connection.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from tests.fakes.http_connection import HttpConnection
from tests.fakes.reply import Dialect, Reply
from tests.fakes.state import RecordedRequest, WorkerState

_COMMENT = b": ping\n\n"
_BROKEN_FRAME = b'data: {"id":"broken","choices":[{"index":0,\n\n'
_FAILURE = "Internal server error"
_FIRST_OF_MULTI_BYTE = re.compile(rb"[\xc2-\xf4]")
_ASCII_OR_ONE_BYTE = re.compile(rb"[\x00-\x7f]+|[\x80-\xff]")


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait before the next step."""

    seconds: float


class Event(Enum):
    """A step that writes nothing."""

    CHUNK = "a content chunk is out"
    FINISH = "the body ends as HTTP has it"
    DROP = "the connection is cut"
    HANG = "nothing follows"


Step = bytes | Pause | Event


def plan_stream(reply: Reply, dialect: Dialect) -> Iterator[Step]:
    """Every step of the stream after its headers, in order; bytes are one write each."""
    script = reply.script
    steps = _frames(reply, dialect)
    if script.crlf:
        steps = (s.replace(b"\n", b"\r\n") if isinstance(s, bytes) else s for s in steps)
    if script.split_utf8:
        steps = _bytes_of_characters_apart(steps)
    if script.split_frames:
        steps = _cut_across_frames(steps)
    return steps


async def play(
    steps: Iterable[Step],
    connection: HttpConnection,
    *,
    request: RecordedRequest,
    reply: Reply,
    state: WorkerState,
) -> None:
    """Play a planned stream; every write goes out in a loop turn of its own."""
    if reply.script.stall_after_chunks == 0:
        state.stall = True
    for step in steps:
        if not state.flowing.is_set():
            await state.flowing.wait()
        if isinstance(step, bytes):
            await connection.send_piece(step)
            await asyncio.sleep(0)
        elif isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
        elif step is Event.CHUNK:
            request.chunks_sent += 1
            state.counters.iterations += 1
            state.counters.generation_tokens += reply.script.tokens_per_chunk
            if request.chunks_sent == reply.script.stall_after_chunks:
                state.stall = True
        elif step is Event.FINISH:
            connection.end_stream()
            request.finished = True
            state.counters.count_finished(reply.script)
        elif step is Event.DROP:
            await connection.drop(reset=reply.script.reset)
        else:
            await asyncio.Event().wait()  # until the peer leaves or the worker stops


def _frames(reply: Reply, dialect: Dialect) -> Iterator[Step]:
    script, total = reply.script, len(reply.texts)
    if script.delay_first_seconds:
        yield Pause(script.delay_first_seconds)
    for sent in range(reply.first, total + 1):
        if sent == script.bad_json_frame:
            yield _BROKEN_FRAME
        ending = _ending_before_frame(reply, dialect, sent)
        if ending:
            yield from ending
            return
        if sent == reply.first:
            yield from dialect.opening(reply)
        coming = dialect.piece(reply, sent) if sent < total else dialect.closing(reply)[0]
        part = _part_to_send(reply, coming, sent)
        if part is not None:
            yield from (part, *_cut(reply))
            return
        if sent < total:
            yield from _content(reply, coming, sent)
    closing = dialect.closing(reply)
    yield from closing[:-1] if script.no_done else closing
    yield Event.FINISH


def _content(reply: Reply, frame: bytes, sent: int) -> Iterator[Step]:
    if sent and reply.script.gap_seconds:
        yield Pause(reply.script.gap_seconds)
    if reply.script.comments:
        yield _COMMENT
    yield frame
    yield Event.CHUNK


def _ending_before_frame(reply: Reply, dialect: Dialect, sent: int) -> list[Step]:
    script = reply.script
    if sent == script.hang_after_chunks:
        return [Event.HANG]
    if sent == script.drop_after_chunks:
        return _cut(reply)
    if sent == script.error_frame_after_chunks:
        return [*dialect.failure(_FAILURE), Event.FINISH]
    return []


def _part_to_send(reply: Reply, frame: bytes, sent: int) -> bytes | None:
    if sent == reply.script.cut_in_frame:
        return frame[: len(frame) // 2]
    if sent == reply.script.cut_in_utf8:
        character = _FIRST_OF_MULTI_BYTE.search(frame)
        assert character is not None, "cut_in_utf8 needs text with a multi-byte character"
        return frame[: character.end()]
    return None


def _cut(reply: Reply) -> list[Step]:
    return [Event.FINISH if reply.script.clean_end else Event.DROP]


def _bytes_of_characters_apart(steps: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, bytes):
            yield from _ASCII_OR_ONE_BYTE.findall(step)
        else:
            yield step


def _cut_across_frames(steps: Iterable[Step]) -> Iterator[Step]:
    held = b""
    for step in steps:
        if not isinstance(step, bytes):
            if held and step in (Event.FINISH, Event.DROP, Event.HANG):
                yield held
                held = b""
            yield step
        elif held:
            yield held + step
            held = b""
        elif len(step) == 1:
            yield step  # half of it would be an empty write, which ends an HTTP body
        else:
            yield step[: len(step) // 2]
            held = step[len(step) // 2 :]
