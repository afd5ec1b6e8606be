"""The requests that benchmarks send, as ready bytes, and what a good answer is.

A streamed call tells the fake worker under the body key `fake` what to send. A router that drops
unknown fields is noticed by the number of chunks.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from bench.client import Exchange

MODEL = "fake-model"
_ASKED = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Say hello a few times, please."}],
}
_PATH = "/v1/chat/completions"
_EVENT = b"data: "
_DONE = b"data: [DONE]"


@dataclass(frozen=True, slots=True)
class Call:
    """One kind of request.

    Attributes:
        request: The whole HTTP request.
        chunks: Content chunks of the answer; zero for an answer in one piece.
    """

    request: bytes
    chunks: int

    def flaw_of(self, exchange: Exchange) -> str | None:
        """What is wrong with the answer; None when it is good."""
        if exchange.flaw is not None:
            return exchange.flaw
        body = exchange.body
        if not self.chunks:
            return None if b'"finish_reason"' in body else "not a completion"
        events = body.count(_EVENT)
        if events <= self.chunks:  # the content chunks and [DONE], at least
            return f"{events} events for {self.chunks} chunks"
        return None if _DONE in body else "no [DONE]"


def unary_call() -> Call:
    """A short chat completion in one piece."""
    return Call(request=chat_request({**_ASKED, "stream": False}), chunks=0)


def stream_call(*, chunks: int, gap_seconds: float = 0.0) -> Call:
    """A streamed chat completion; with a gap of zero its chunks come back to back."""
    script = {"chunks": chunks, "gap_seconds": gap_seconds}
    return Call(request=chat_request({**_ASKED, "stream": True, "fake": script}), chunks=chunks)


def chat_request(fields: Mapping[str, object], *, request_id: str | None = None) -> bytes:
    """A chat completion request with these members, and with this id, as the bytes of HTTP."""
    body = json.dumps(fields).encode()
    named = "" if request_id is None else f"x-request-id: {request_id}\r\n"
    head = (
        f"POST {_PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{named}"
        f"authorization: Bearer unused\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
