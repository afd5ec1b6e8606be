"""Hostile answers of a worker, byte by byte: cut, split, mutated, of every size; seeded, pure."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.fuzz import hostile_answers
from tests.fakes.chunk_dialects import Chat, Completions
from tests.fakes.event_dialects import Messages, Responses
from tests.fakes.reply import Dialect, Reply, compact
from tests.fakes.script import DEFAULT

Ending = Literal["keep", "close", "reset", "hang"]
"""What the worker does behind its last byte; `hang` keeps the connection and says nothing more."""

DIALECTS: dict[str, Dialect] = {
    "/v1/chat/completions": Chat(),
    "/v1/completions": Completions(),
    "/v1/responses": Responses(),
    "/v1/messages": Messages(),
}
MAX_FRAME_BYTES = 2**20
"""`stream.max_frame_bytes` of the gateway under test."""
_PATHS = tuple(DIALECTS)
_TEXTS = [" hello", " naïve 🙂", " world"]
_JSON = b"content-type: application/json"
_EVENTS = b"content-type: text/event-stream; charset=utf-8"
_CHUNKED = b"transfer-encoding: chunked"
_BOUNDS = (2**16, 2**17, MAX_FRAME_BYTES)
"""Of the connection's and the stream's buffers, and of a frame."""


@dataclass(frozen=True, slots=True)
class AnswerCase:
    """One request, and what the worker answers.

    Attributes:
        tag: Names the case; in the request and in the answer's text.
        path: Endpoint.
        stream: Whether the client asks for a stream.
        steps: Bytes to send, and pauses in seconds.
        is_good: Whether the answer is valid, so that the client must get all of it.
    """

    tag: str
    path: str
    stream: bool
    steps: tuple[bytes | float, ...]
    ending: Ending = "keep"
    is_good: bool = False


def whole_answer(path: str, tag: str) -> bytes:
    """A valid answer in one piece."""
    body = compact(DIALECTS[path].unary(_reply(tag, stream=False))).encode()
    return head(_JSON, b"content-length: %d" % len(body)) + body


def frames_of(path: str, tag: str) -> list[bytes]:
    """The frames of a valid stream."""
    dialect, reply = DIALECTS[path], _reply(tag, stream=True)
    pieces = [dialect.piece(reply, index) for index in range(len(reply.texts))]
    return [*dialect.opening(reply), *pieces, *dialect.closing(reply)]


def stream_answer(frames: Sequence[bytes]) -> bytes:
    """A valid streamed answer, one HTTP chunk for each frame."""
    return head(_EVENTS, _CHUNKED) + b"".join(map(chunk, frames)) + b"0\r\n\r\n"


def head(*lines: bytes, status: bytes = b"HTTP/1.1 200 OK", end: bytes = b"\r\n") -> bytes:
    """The head of an answer."""
    return end.join([status, b"server: uvicorn", *lines, b"", b""])


def chunk(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def at_every_byte() -> Iterator[AnswerCase]:
    """Every valid answer cut and split at every byte."""
    for number, path in enumerate(_PATHS):
        for stream in (False, True):
            kind = number * 2 + stream
            length = len(_valid(path, f"acut-{kind:02}-{0:05}", stream=stream))
            for at in range(length):
                tag = f"acut-{kind:02}-{at:05}"
                data = _valid(path, tag, stream=stream)
                ending: Ending = "reset" if at % 4 == 0 else "close"
                yield AnswerCase(tag, path, stream, (data[:at],), ending)
                tag = f"atwo-{kind:02}-{at:05}"
                data = _valid(path, tag, stream=stream)
                steps = (data[:at], 0.0, data[at:])
                yield AnswerCase(tag, path, stream, steps, is_good=True)


def at_every_bound() -> Iterator[AnswerCase]:
    """Frames, and whole answers, of every size around every bound, in several packings."""
    path = _PATHS[0]
    for bound in _BOUNDS:
        for size in range(bound - 40, bound + 41, 1 if bound < MAX_FRAME_BYTES else 4):
            for packing in range(4):
                tag = f"abig-{bound.bit_length():02}-{packing}{size - bound + 40:04}"
                frames = _padded(frames_of(path, tag), size)
                steps = _packed(frames, packing)
                yield AnswerCase(tag, path, True, steps, is_good=size <= MAX_FRAME_BYTES)


def _packed(frames: Sequence[bytes], packing: int) -> tuple[bytes | float, ...]:
    """A stream in one write; a write for each frame; all in one chunk; chunks that cut frames."""
    begin, end = head(_EVENTS, _CHUNKED), b"0\r\n\r\n"
    match packing:
        case 0:
            return (stream_answer(frames),)
        case 1:
            return (begin, *_apart(map(chunk, frames)), end)
        case 2:
            return (begin, chunk(b"".join(frames)), end)
        case _:
            return (begin, *_apart(_halves(frames)), end)


def random_answers(*, seed: int, first: int, count: int) -> Iterator[AnswerCase]:
    """`count` cases from number `first` on."""
    for number in range(first, first + count):
        chance = random.Random(f"{seed}:worker:{number}")
        tag, path = f"a{number:07}", chance.choice(_PATHS)
        make = chance.choice(_MAKERS)
        data, stream = make(path, tag, chance), chance.random() < 0.7
        endings: tuple[Ending, ...] = ("keep", "close", "reset", "hang")
        ending = chance.choices(endings, weights=(70, 20, 8, 2))[0]
        yield AnswerCase(tag, path, stream, _in_steps(data, chance), ending)


def _reply(tag: str, *, stream: bool) -> Reply:
    texts = [f" {tag}", *_TEXTS]
    return Reply("fake-model", DEFAULT, stream, stream, texts=texts, serial="0" * 16, created=1)


def _valid(path: str, tag: str, *, stream: bool) -> bytes:
    return stream_answer(frames_of(path, tag)) if stream else whole_answer(path, tag)


def _padded(frames: Sequence[bytes], size: int) -> list[bytes]:
    """Make the second frame, which has text, `size` bytes long."""
    text = b'"content":" '
    padding = b"x" * (size - len(frames[1]))
    return [frames[0], frames[1].replace(text, text + padding), *frames[2:]]


def _apart(pieces: Iterator[bytes]) -> Iterator[bytes | float]:
    for piece in pieces:
        yield piece
        yield 0.0


def _halves(frames: Sequence[bytes]) -> Iterator[bytes]:
    """Chunks that end in the middle of frames."""
    data = b"".join(frames)
    step = len(data) // 3
    return (chunk(data[begin : begin + step]) for begin in range(0, len(data), step))


def _in_steps(data: bytes, chance: random.Random) -> tuple[bytes | float, ...]:
    if len(data) < 2 or chance.random() < 0.6:
        return (data,)
    at = chance.randrange(1, len(data))
    return data[:at], chance.choice((0.0, 0.0, 0.002)), data[at:]


def _mutated(path: str, tag: str, chance: random.Random) -> bytes:
    """A valid answer with a few bytes changed."""
    data = bytearray(_valid(path, tag, stream=chance.random() < 0.7))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        until = min(len(data), at + chance.choice((1, 2, 8, 64)))
        match chance.randrange(5):
            case 0:
                data[at:until] = bytes(byte ^ (1 << chance.randrange(8)) for byte in data[at:until])
            case 1:
                del data[at:until]
            case 2:
                data[at:at] = data[at:until]
            case 3:
                data[at:until] = chance.choice(hostile_answers.TOKENS)
            case _:
                data[at:at] = chance.choice(hostile_answers.TOKENS)
    return bytes(data)


def _hostile_head(path: str, tag: str, chance: random.Random) -> bytes:
    """A status line and headers that no worker should send, with a good body."""
    stream = chance.random() < 0.5
    whole = _valid(path, tag, stream=stream)
    body = whole[whole.index(b"\r\n\r\n") + 4 :]
    length = _CHUNKED if stream else b"content-length: %d" % len(body)
    lines = [
        _EVENTS if stream else _JSON,
        *chance.choices(hostile_answers.LINES, k=chance.randint(1, 2)),
    ]
    if chance.random() < 0.7:
        lines.insert(chance.randrange(len(lines) + 1), length)
    status = (
        chance.choice(hostile_answers.STATUSES) if chance.random() < 0.6 else b"HTTP/1.1 200 OK"
    )
    end = chance.choice((b"\n", b"\r")) if chance.random() < 0.1 else b"\r\n"
    interim = chance.choice(hostile_answers.INTERIM) if chance.random() < 0.3 else b""
    return interim + head(*lines, status=status, end=end) + body


def _large_head(path: str, tag: str, chance: random.Random) -> bytes:
    """A head around its bound, or of many lines."""
    size = 2**16 + chance.randint(-300, 300)
    lines = [b"x-%d: a" % number for number in range(chance.choice((90, 300, 5_000)))]
    if chance.random() < 0.5:
        lines = [b"x-large: " + b"a" * size]
    whole = _valid(path, tag, stream=False)
    return whole.replace(b"server: uvicorn", b"\r\n".join(lines))


def _hostile_frames(path: str, tag: str, chance: random.Random) -> bytes:
    """A well-framed stream whose events are wrong, missing, repeated or in another order."""
    frames = frames_of(path, tag)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(frames) + 1)
        match chance.randrange(6):
            case 0:
                frames.insert(at, chance.choice(hostile_answers.FRAMES))
            case 1:
                del frames[at:][:1]
            case 2:
                frames = frames[:at]
            case 3:
                frames[at:at] = frames[-1:]
            case 4:
                frames = [
                    frame.replace(b"\n", chance.choice(hostile_answers.LINE_ENDS))
                    for frame in frames
                ]
            case _:
                chance.shuffle(frames)
    return stream_answer(frames or [b"\n\n"])


def _hostile_chunks(path: str, tag: str, chance: random.Random) -> bytes:
    """A stream cut into chunks that ignore frames, one of them with a bad size."""
    data = b"".join(frames_of(path, tag))
    sizes = [chance.choice((1, 3, 50, 400)) for _ in range(len(data))]
    chunks, begin = [], 0
    for size in sizes:
        if begin >= len(data):
            break
        chunks.append(chunk(data[begin : begin + size]))
        begin += size
    if chance.random() < 0.7:
        at = chance.randrange(len(chunks))
        size_line, _, rest = chunks[at].partition(b"\r\n")
        chunks[at] = (
            chance.choice(hostile_answers.CHUNK_SIZES) % {b"size": size_line} + b"\r\n" + rest
        )
    end = chance.choice(
        (b"0\r\n\r\n", b"0\r\nx: y\r\n\r\n", b"0\r\ncontent-length: 9\r\n\r\n", b"")
    )
    return head(_EVENTS, _CHUNKED) + b"".join(chunks) + end


def _extra(path: str, tag: str, chance: random.Random) -> bytes:
    """A valid answer with more behind it: nobody asked for that."""
    extra = chance.choice((*hostile_answers.EXTRA, whole_answer(path, tag)))
    return _valid(path, tag, stream=chance.random() < 0.5) + extra


def _wrong_length(path: str, tag: str, chance: random.Random) -> bytes:
    """A content length that the body does not have, or a body that JSON does not allow."""
    whole = whole_answer(path, tag)
    body = whole[whole.index(b"\r\n\r\n") + 4 :]
    if chance.random() < 0.5:
        body = chance.choice(hostile_answers.BODIES)
    length = len(body) if chance.random() < 0.5 else chance.choice((0, 1, 10**6, 10**30))
    return head(_JSON, b"content-length: %d" % length) + body


_MAKERS: tuple[Callable[[str, str, random.Random], bytes], ...] = (
    *(_mutated, _mutated, _hostile_head, _large_head, _hostile_frames, _hostile_frames),
    *(_hostile_chunks, _extra, _wrong_length),
)
