"""Relays an answer that is not a stream: held until complete, unless it is very large."""

import asyncio
from collections.abc import Sequence

from gateway.protocol import Answer, InferenceRequest, read_answer
from gateway.relay.event_stream import SlowClientError
from gateway.relay.streamed import Source
from gateway.types import Sink


async def relay_whole(
    source: Source,
    request: InferenceRequest,
    sink: Sink,
    *,
    status: int,
    headers: Sequence[tuple[bytes, bytes]],
    held_bytes: int,
    stuck_seconds: float,
) -> Answer:
    """Relay a 2xx answer.

    An answer of up to `held_bytes` is held until complete: if the worker dies, the request can be
    replayed and the client never sees half an answer. A longer one is passed through unread, in
    bounded memory.

    Raises:
        UpstreamError: The answer broke off, or is not JSON. Nothing was sent unless it was long.
        SlowClientError: The client read nothing of a long answer for `stuck_seconds`.
    """
    held = bytearray()
    while data := await source.read_some():
        held += data
        if len(held) > held_bytes:
            break
    else:
        answer = read_answer(request, bytes(held))
        length = (b"content-length", str(len(answer.body)).encode())
        await sink.start(status, [*headers, length])
        await sink.end(answer.body)
        return answer
    await sink.start(status, headers)
    await _write(sink, bytes(held), stuck_seconds)
    while data := await source.read_some():
        await _write(sink, data, stuck_seconds)
    await sink.end()
    return Answer(b"")


async def _write(sink: Sink, data: bytes, stuck_seconds: float) -> None:
    try:
        async with asyncio.timeout(stuck_seconds):
            await sink.write(data)
    except TimeoutError as error:
        raise SlowClientError from error
