"""Hostile requests, byte by byte: cut, split, mutated, and made of hostile parts; seeded, pure.

The number of a case and the seed give the same bytes again. Every request that is meant to reach
a worker carries the case's tag in a header and in its body, so that the worker can count them.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.fuzz import hostile_requests

Ending = Literal["answer", "eof", "reset"]

_CHAT = "/v1/chat/completions"
_MESSAGES = [{"role": "user", "content": "Say hello."}]
_CRLF = b"\r\n"


@dataclass(frozen=True, slots=True)
class RequestCase:
    """What one connection sends.

    Attributes:
        tag: Names the case; in its requests' headers and bodies.
        pieces: Sent one after the other.
        ending: Wait for the answer, or leave at once.
        answers: How many good answers must come; None: any refusal or close will do.
    """

    tag: str
    pieces: tuple[bytes, ...]
    ending: Ending = "answer"
    answers: int | None = None

    @property
    def data(self) -> bytes:
        """All that it sends."""
        return b"".join(self.pieces)


class Wire:
    """Writes requests of one caller.

    Args:
        key: The caller's API key.
        tag: Goes into headers and bodies.
    """

    def __init__(self, key: str, tag: str) -> None:
        self._key = key
        self.tag = tag

    def body(self, **more: object) -> bytes:
        """A chat request."""
        fields = {"model": "fake-model", "messages": _MESSAGES, "user": self.tag, **more}
        return json.dumps(fields).encode()

    def head(
        self,
        *lines: bytes,
        method: bytes = b"POST",
        target: bytes = _CHAT.encode(),
        version: bytes = b"HTTP/1.1",
        end: bytes = _CRLF,
    ) -> bytes:
        """A head with these lines after the usual ones."""
        usual = [
            b"host: gateway",
            b"authorization: Bearer " + self._key.encode(),
            b"content-type: application/json",
            b"x-request-id: " + self.tag.encode(),
        ]
        first = b" ".join((method, target, version))
        return end.join([first, *usual, *lines, b"", b""])

    def post(self, body: bytes, *lines: bytes, path: str = _CHAT) -> bytes:
        """A request with a content length."""
        length = b"content-length: %d" % len(body)
        return self.head(length, *lines, target=path.encode()) + body

    def chunked(self, body: bytes, *lines: bytes, extension: bytes = b"") -> bytes:
        """A request in chunks of 40 bytes."""
        pieces = [body[begin : begin + 40] for begin in range(0, len(body), 40)]
        chunks = [b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces]
        return self.head(b"transfer-encoding: chunked", *lines) + b"".join(chunks) + b"0\r\n\r\n"

    def get(self, target: bytes, method: bytes = b"GET") -> bytes:
        """A request without a body."""
        return self.head(method=method, target=target)


def valid_requests(wire: Wire) -> list[tuple[bytes, int]]:
    """Requests that must be answered well, each with its number of answers."""
    chat, stream = wire.body(), wire.body(stream=True)
    text = json.dumps({"model": "fake-model", "prompt": "a", "user": wire.tag}).encode()
    messages = wire.body(max_tokens=8)
    one_line = wire.head(b"content-length: %d" % len(text), target=b"/v1/completions")
    return [
        (wire.post(chat), 1),
        (wire.post(stream), 1),
        (wire.chunked(chat), 1),
        (wire.chunked(chat, b"trailer: x-more", extension=b";a=b"), 1),
        (wire.post(messages, b"x-api-key: unused", path="/v1/messages"), 1),
        (wire.post(chat, b"expect: 100-continue"), 1),
        (wire.post(chat, b"upgrade: h2c", b"connection: upgrade, http2-settings"), 1),
        (wire.post(chat, b"connection: close"), 1),
        (one_line.replace(b"HTTP/1.1", b"HTTP/1.0") + text, 1),
        (wire.get(b"/v1/models") + wire.post(chat), 2),
        (wire.get(b"http://gateway/health/live"), 1),
        (wire.post(text, path="/v1/completions") * 2, 2),
    ]


def at_every_byte(key: str) -> Iterator[RequestCase]:
    """Every valid request cut (the client leaves) and split (sent in two pieces) at every byte."""
    kinds = len(valid_requests(Wire(key, "")))
    for number in range(kinds):
        at, length = 1, 2
        while at < length:
            wire = Wire(key, f"rcut-{number:02}-{at:05}")
            request, answers = valid_requests(wire)[number]
            length = len(request)
            yield RequestCase(wire.tag, (request[:at],), "reset" if at % 4 == 0 else "eof")
            wire = Wire(key, f"rtwo-{number:02}-{at:05}")
            request, answers = valid_requests(wire)[number]
            yield RequestCase(wire.tag, (request[:at], request[at:]), answers=answers)
            at += 1


def random_requests(key: str, *, seed: int, first: int, count: int) -> Iterator[RequestCase]:
    """`count` cases from number `first` on."""
    for number in range(first, first + count):
        chance = random.Random(f"{seed}:{number}")
        wire = Wire(key, f"r{number:07}")
        make = chance.choice(_MAKERS)
        data = make(wire, chance)
        if chance.random() < 0.3:  # what follows must not be read as a part of the first
            data += wire.post(wire.body())
        yield RequestCase(wire.tag, _in_pieces(data, chance))


def _in_pieces(data: bytes, chance: random.Random) -> tuple[bytes, ...]:
    if len(data) < 2 or chance.random() < 0.7:
        return (data,)
    at = chance.randrange(1, len(data))
    return data[:at], data[at:]


def _mutated(wire: Wire, chance: random.Random) -> bytes:
    """A valid request with a few bytes changed."""
    request = bytearray(chance.choice(valid_requests(wire))[0])
    for _ in range(chance.randint(1, 4)):
        _mutate(request, chance)
    return bytes(request)


def _mutate(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    until = min(len(data), at + chance.choice((1, 2, 8, 64)))
    match chance.randrange(6):
        case 0:
            data[at:until] = bytes(byte ^ (1 << chance.randrange(8)) for byte in data[at:until])
        case 1:
            del data[at:until]
        case 2:
            data[at:at] = data[at:until]
        case 3:
            data[at:until] = chance.choice(hostile_requests.TOKENS)
        case 4:
            data[at:at] = chance.choice(hostile_requests.TOKENS)
        case _:
            line_end = data.find(_CRLF, at)
            if line_end >= 0:
                data[line_end : line_end + 2] = chance.choice(hostile_requests.LINE_ENDS)


def _hostile_head(wire: Wire, chance: random.Random) -> bytes:
    """A request line and headers that no client should send, with a good body."""
    body = wire.body()
    lines = chance.choices(hostile_requests.LINES, k=chance.randint(1, 3))
    if chance.random() < 0.6:
        lines.insert(chance.randrange(len(lines) + 1), b"content-length: %d" % len(body))
    return (
        wire.head(
            *lines,
            method=_usually(b"POST", hostile_requests.METHODS, chance),
            target=_usually(_CHAT.encode(), hostile_requests.TARGETS, chance),
            version=_usually(b"HTTP/1.1", hostile_requests.VERSIONS, chance),
            end=_usually(_CRLF, hostile_requests.LINE_ENDS, chance),
        )
        + body
    )


def _large_head(wire: Wire, chance: random.Random) -> bytes:
    """A head around the bounds of size (64 KiB) and count (100)."""
    if chance.random() < 0.5:
        size = chance.choice((2**15, 2**16)) + chance.randint(-600, 600)
        return wire.head(b"x-large: " + b"a" * size) + wire.body()
    count = chance.randint(90, 110)
    return wire.head(*[b"x-%d: a" % number for number in range(count)]) + wire.body()


def _hostile_chunks(wire: Wire, chance: random.Random) -> bytes:
    """A chunked body with one bad size, and a second request inside."""
    body, inner = wire.body(), wire.post(wire.body())
    size = chance.choice(hostile_requests.CHUNK_SIZES) % {b"size": len(body)}
    end = _usually(_CRLF, (b"\n", b"\r", b"", b"\r\n\r\n"), chance)
    last, trailer = (
        chance.choice(hostile_requests.LAST_CHUNKS),
        chance.choice(hostile_requests.TRAILERS),
    )
    lines = [b"transfer-encoding: chunked"]
    if chance.random() < 0.5:
        lines.insert(chance.randrange(2), b"content-length: %d" % chance.choice((0, 5, len(body))))
    return wire.head(*lines) + b"".join(
        (size, end, body, end, last, end, trailer, end, inner if chance.random() < 0.5 else b"")
    )


def _two_lengths(wire: Wire, chance: random.Random) -> bytes:
    """Two headers that disagree where the body ends; behind one of the ends is a request."""
    body = wire.body()
    inner = wire.post(wire.body())
    lengths = [b"content-length: %d" % len(body), chance.choice(hostile_requests.FRAMINGS)]
    chance.shuffle(lengths)
    return wire.head(*lengths) + body + inner


def _hostile_body(wire: Wire, chance: random.Random) -> bytes:
    """A well-framed body that is no JSON, or has hostile values where the gateway reads."""
    if chance.random() < 0.3:
        return wire.post(chance.choice(hostile_requests.BODIES))
    names = chance.sample(hostile_requests.FIELDS, k=chance.randint(1, 3))
    text = wire.body(**{name: f"@{name}@" for name in names})
    for name in names:
        text = text.replace(f'"@{name}@"'.encode(), chance.choice(hostile_requests.VALUES))
    path = chance.choice((_CHAT, "/v1/completions", "/v1/responses", "/v1/messages"))
    return wire.post(text, path=path)


def _usually(value: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    return value if chance.random() < 0.6 else chance.choice(others)


_MAKERS: tuple[Callable[[Wire, random.Random], bytes], ...] = (
    _mutated,
    _mutated,
    _hostile_head,
    _hostile_head,
    _large_head,
    _hostile_chunks,
    _two_lengths,
    _hostile_body,
)
