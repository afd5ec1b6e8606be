"""Reads a worker's stream frame by frame: what the client gets, token counts, and the end.

Frames are passed on unchanged, with two exceptions: usage that the client did not ask for is
removed, and a worker's error, in any shape, becomes our error event.

vLLM puts `system_fingerprint` on a stream's last frame. If we asked for a usage chunk, that is the
last one, and the client would miss the fingerprint. So the last chunk with text is held until the
usage chunk, which follows at once, and gets its fingerprint.
"""

import json
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from gateway.errors import GatewayError, UpstreamError
from gateway.protocol.answer import completed
from gateway.protocol.endpoints import Dialect
from gateway.protocol.error_body import relayed_stream_error
from gateway.protocol.json_object import WorkerObject, read_worker_object
from gateway.protocol.request import InferenceRequest
from gateway.protocol.resumption import Progress, Seam
from gateway.protocol.seen_tokens import SeenTokens
from gateway.protocol.speculation_metrics import read_report
from gateway.protocol.sse import data_frame, data_of, event_of
from gateway.protocol.turn import marked_event
from gateway.protocol.usage import cut_running_usage, read_usage, usage_at_end
from gateway.types import Acceptance, Usage

_RESPONSES_ENDS = (b"response.completed", b"response.incomplete")
_RESPONSES_WHOLE = (b"response.created", b"response.in_progress", *_RESPONSES_ENDS)
"""Events that carry the whole response."""
_RESPONSES_FAILURES = (b"response.failed", b"error")
_LAST = b'"finish_reason":"'  # a real key: quotes in strings are escaped


class FrameKind(Enum):
    """What a frame means for its stream."""

    TOKENS = "tokens"
    SERVICE = "service"
    END = "end"


class Relayed(NamedTuple):
    """The result of reading one frame.

    Attributes:
        frame: Bytes for the client; None if the client gets nothing.
        kind: TOKENS carries generated text; END is the last frame of the stream.
        new_tokens: Tokens that this frame adds; None if the worker does not count them.
    """

    frame: bytes | None
    kind: FrameKind
    new_tokens: int | None = None


class StreamReader:
    """Reads the frames of one stream in order.

    Attributes:
        usage: Token counts, once the worker has sent them.
        acceptance: Speculation counts, once the worker has sent them.
        frames_read: Frames so far; the number of an error event on `/v1/responses`.
        response: The complete response, if the request is a turn of a conversation.
        seen: The answer's tokens, if the canary watches the request.
        progress: What the client has, if another worker could go on with the answer.

    Args:
        request: The request that is answered.
        before: What the client had of the answer when its last worker was lost.

    Until the worker has sent its counts, `generated_tokens` and `running_usage` tell what has gone
    by.
    """

    def __init__(self, request: InferenceRequest, before: Progress | None = None) -> None:
        self._request = request
        self._running_tokens = len(request.resumed)
        self._uncounted_frames = 0
        self._counted_frame = b""
        self._prompt = Usage()
        counted = request.counts_tokens_per_chunk
        self._counts = counted
        self._cuts_usage = counted and not request.wants_continuous_usage
        self._holds_last = self._cuts_usage and not request.wants_usage
        self._held = b""
        self.usage: Usage | None = None
        self.acceptance: Acceptance | None = None
        self.frames_read = 0
        self.response: bytes | None = None
        self.seen = None if request.watch is None else SeenTokens(request.watch)
        self.progress = Progress(before) if request.resumable else None
        self._seam = None if before is None else Seam(before)
        self._read = _READS[request.endpoint.dialect]
        if self.progress is not None:
            self._read = StreamReader._read_resumable
        elif self.seen is not None:
            self._read = StreamReader._read_watched

    @property
    def needs_end_frame(self) -> bool:
        """Whether a stream of this dialect that closes without an END frame is incomplete."""
        return self._request.endpoint.dialect is not Dialect.PLAIN

    @property
    def generated_tokens(self) -> int:
        """Tokens so far; if the worker does not count them, one for each frame with text."""
        if self.usage is not None:
            return self.usage.completion_tokens
        return self._running_tokens or self._uncounted_frames

    @property
    def running_usage(self) -> Usage | None:
        """The worker's counts, or else what has gone by; None if that is nothing."""
        if self.usage is not None or not self.generated_tokens:
            return self.usage
        running = usage_at_end(self._counted_frame) or self._prompt
        return replace(running, completion_tokens=self.generated_tokens)

    def read(self, frame: bytes) -> Relayed:
        """Read the next frame.

        Raises:
            GatewayError: The frame is a worker's error, or should be JSON and is not.
        """
        self.frames_read += 1
        return self._read(self, frame)

    def take_held(self) -> bytes:
        """Take the held chunk, which the client must get even if the stream fails."""
        held, self._held = self._held, b""
        return held

    @property
    def end(self) -> bytes:
        """What is left of a stream whose text is complete: the held chunk, usage, and the end."""
        usage = b""
        if self._request.wants_usage and self.usage is None and self._counted_frame:
            chunk = json.loads(data_of(self._counted_frame)) | {"choices": []}
            usage = data_frame(json.dumps(chunk, separators=(",", ":")).encode())
        return self.take_held() + usage + data_frame(b"[DONE]")

    def _read_resumable(self, frame: bytes) -> Relayed:
        assert self.progress is not None
        if self._seam is not None:
            left = self._seam.cut(frame)
            if self._seam.is_behind:
                self._seam = None
            if left is None:
                return Relayed(None, FrameKind.SERVICE)
            frame = left
        was_known = self.progress.is_known
        frame = self.progress.take(frame)
        try:
            return self._read_chunk(frame) if self.seen is None else self._read_watched(frame)
        except GatewayError:
            self.progress.is_known = was_known  # the client does not get this frame
            raise

    def _read_watched(self, frame: bytes) -> Relayed:
        assert self.seen is not None
        frame = self.seen.take(frame)
        return self._read_chunk(frame) if frame else Relayed(None, FrameKind.SERVICE)

    def _read_chunk(self, frame: bytes) -> Relayed:
        data = data_of(frame)
        if self._held and not _is_usage_chunk(data):
            held = self.take_held()
            try:
                after = self._read_known_chunk(frame, data)
            except GatewayError:
                self._held = held  # for `take_held`
                raise
            return after._replace(frame=held + (after.frame or b""))
        return self._read_known_chunk(frame, data)

    def _read_known_chunk(self, frame: bytes, data: bytes) -> Relayed:
        if data == b"[DONE]":
            return Relayed(frame, FrameKind.END)
        if not data:
            return Relayed(frame, FrameKind.SERVICE)  # a comment
        if data.startswith(b'{"error"') or b'"object":"error"' in data[:64]:
            raise relayed_stream_error(data)
        if _is_usage_chunk(data):
            return self._read_usage_chunk(frame, data)
        without_usage, running = cut_running_usage(frame) if self._counts else (frame, None)
        if running is None:
            read_worker_object(data)  # an unknown shape, but it has to be JSON
            return self._uncounted(frame, has_text=True)
        new_tokens, self._running_tokens = running - self._running_tokens, running
        self._counted_frame = frame
        if self._cuts_usage:
            frame = without_usage
        kind = FrameKind.TOKENS if running else FrameKind.SERVICE
        if self._holds_last and _LAST in frame:
            self._held = frame
            return Relayed(None, kind, new_tokens)
        return Relayed(frame, kind, new_tokens)

    def _read_usage_chunk(self, frame: bytes, data: bytes) -> Relayed:
        answer = read_worker_object(data)
        self.usage = read_usage(answer.usage)
        report = read_report(answer.metrics)
        self.acceptance = None if report is None else report.acceptance
        if not self._request.wants_usage:
            stamped = _stamped(self.take_held(), answer.system_fingerprint)
            return Relayed(stamped or None, FrameKind.SERVICE)
        if report is not None:
            frame = completed(frame, self._request, report)
        return Relayed(frame, FrameKind.SERVICE)

    def _read_response_event(self, frame: bytes) -> Relayed:
        event, data = event_of(frame), data_of(frame)
        if event in _RESPONSES_FAILURES or (event == b"" and data.startswith(b'{"error"')):
            raise relayed_stream_error(data)
        is_end = event in _RESPONSES_ENDS
        answer = read_worker_object(data) if data or is_end else WorkerObject()
        if answer.type not in (None, event.decode("latin-1")):  # OpenAI's SDK reads only `type`
            raise UpstreamError("The engine sent an event with two names.")
        if self._request.turn is not None and event in _RESPONSES_WHOLE:
            frame, response = marked_event(event, data, self._request.turn)
            self.response = response if is_end else None
        if is_end:
            self.usage = None if answer.response is None else read_usage(answer.response.usage)
            return Relayed(frame, FrameKind.END)
        return self._uncounted(frame, has_text=event.endswith(b".delta"))

    def _read_message_event(self, frame: bytes) -> Relayed:
        event, data = event_of(frame), data_of(frame)
        if event == b"error":
            raise relayed_stream_error(data)
        is_end = event == b"message_stop"
        answer = read_worker_object(data) if data or is_end else WorkerObject()
        if is_end:
            return Relayed(frame, FrameKind.END)
        if event == b"message_start" and answer.message is not None:
            self._prompt = read_usage(answer.message.usage) or Usage()
        if event == b"message_delta":
            self.usage = read_usage(answer.usage)
        return self._uncounted(frame, has_text=event == b"content_block_delta")

    def _uncounted(self, frame: bytes, *, has_text: bool) -> Relayed:
        self._uncounted_frames += has_text
        return Relayed(frame, FrameKind.TOKENS if has_text else FrameKind.SERVICE)

    def _read_unknown(self, frame: bytes) -> Relayed:
        return Relayed(frame, FrameKind.SERVICE)


# Plain functions: a reader that holds its own bound method would be a reference cycle.
_READS = {
    Dialect.CHAT: StreamReader._read_chunk,
    Dialect.COMPLETIONS: StreamReader._read_chunk,
    Dialect.RESPONSES: StreamReader._read_response_event,
    Dialect.MESSAGES: StreamReader._read_message_event,
    Dialect.PLAIN: StreamReader._read_unknown,
}


def _is_usage_chunk(data: bytes) -> bool:
    return b'"choices":[]' in data and b'"usage":{' in data


def _stamped(frame: bytes, fingerprint: object) -> bytes:
    """Add `system_fingerprint` to a chunk as its last member, as vLLM would have."""
    if not frame or not isinstance(fingerprint, str):
        return frame
    end = frame.rindex(b"}")
    stamp = b',"system_fingerprint":' + json.dumps(fingerprint).encode()
    return frame[:end] + stamp + frame[end:]
