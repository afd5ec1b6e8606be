"""The script of one answer: what a request asks the fake worker to do, faults included.

A test writes it under the top-level key `fake` of the request body, which the gateway forwards
like any field it does not know. Points in a stream are counted in content chunks: `hang_after_
chunks: 3` hangs once three pieces of text have gone out (the opening frames are not counted).
"""

import json
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

_MULTI_BYTE_TEXT = " naïve 🙂"
_PLAIN_TEXT = " hello"

Count = Annotated[int, Field(ge=0, le=10_000_000)]
Size = Annotated[int, Field(ge=0, le=1_000_000_000)]
Seconds = Annotated[float, Field(ge=0.0, le=600.0)]


class ScriptError(ValueError):
    """A script that cannot be played; the message names the field."""


class Script(BaseModel):
    """What to answer and when; the default is a quick, faultless answer.

    Attributes:
        chunks: Content chunks of a stream, or pieces of a unary text.
        tokens_per_chunk: Tokens each chunk stands for.
        text: Text of each chunk, repeated in turn; sets `chunks` unless that is given as well.
        prompt_tokens: What usage reports.
        cached_tokens: How many of them came from the prefix cache; zero is not reported.
        finish_reason: What the last chunk reports.
        tool_name: The stream of a chat calls this tool; its text is the arguments.
        delay_headers_seconds: Wait before the status line.
        delay_first_seconds: Wait between the headers and the first byte of a stream.
        gap_seconds: Wait before each further chunk; zero writes each in its own loop turn.
        status: HTTP status; from 300 on `error` is the body, or an error as vLLM words it.
        error: Body of such an answer.
        headers: Further response headers, for example `retry-after`.
        drop_before_headers: Close without a byte.
        drop_after_headers: Close after the status line and the headers.
        drop_after_chunks: Close after so many chunks.
        cut_in_frame: Close in the middle of the frame that follows so many chunks.
        cut_in_utf8: Close in the middle of a multi-byte character of that frame.
        clean_end: Let the cuts above end the HTTP body properly, as a broken worker would.
        reset: Make every close a TCP reset.
        hang_before_headers: Never answer.
        hang_after_chunks: Say nothing more after so many chunks; zero: only the headers.
        split_utf8: Send each byte of multi-byte characters in a write of its own.
        split_frames: Cut writes across frame borders: half a frame; the rest and a whole frame.
        huge_frame_bytes: Pad the text of the first chunk to this size.
        bad_json_frame: Send a frame of broken JSON after so many chunks, then go on.
        stall_after_chunks: Set `state.stall` after so many chunks; zero: after the headers.
        error_frame_after_chunks: Fail after so many chunks the way vLLM fails in mid-stream.
        no_done: Leave out the last frame (`[DONE]`, `response.completed`, `message_stop`).
        crlf: End lines of the stream with CR LF.
        comments: Send a `: ping` comment before each content chunk.
        truncate_unary: Send only half of the body that Content-Length promises.
        unary_bytes: Pad the text of a unary answer to this size.
        drafted: Draft tokens in `metrics.speculative_decoding`.
        accepted: How many of them were accepted.
        per_step_drafted: Reported as it is (`tests.fakes.coded_steps` writes sources into it),
            instead of steps computed from `drafted`; the total follows.
        per_step_accepted: Likewise, for `accepted`.
        summary: Report totals only, as a worker does whose metrics are not `detailed`.
        wrong_token: Place of a token that is wrong unless drafts are turned off.
        wrong_margin: How much less likely than the right one it is, in nats.
        plain_seconds: Wait before the status line if drafts are turned off.
        no_speculation: Report no figures, as a worker without a drafter does.
        resumes: Send token ids if asked to, and go on behind such ids, as our worker does.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    chunks: Count = 8
    tokens_per_chunk: Count = 1
    text: list[str] | None = None
    prompt_tokens: Count = 7
    cached_tokens: Count = 0
    finish_reason: str = "stop"
    tool_name: str | None = None
    delay_headers_seconds: Seconds = 0.0
    delay_first_seconds: Seconds = 0.0
    gap_seconds: Seconds = 0.0
    status: Annotated[int, Field(ge=200, le=599)] = 200
    error: dict[str, Any] | None = None
    headers: dict[str, str] = {}
    drop_before_headers: bool = False
    drop_after_headers: bool = False
    drop_after_chunks: Count | None = None
    cut_in_frame: Count | None = None
    cut_in_utf8: Count | None = None
    clean_end: bool = False
    reset: bool = False
    hang_before_headers: bool = False
    hang_after_chunks: Count | None = None
    split_utf8: bool = False
    split_frames: bool = False
    huge_frame_bytes: Size = 0
    bad_json_frame: Count | None = None
    stall_after_chunks: Count | None = None
    error_frame_after_chunks: Count | None = None
    no_done: bool = False
    crlf: bool = False
    comments: bool = False
    truncate_unary: bool = False
    unary_bytes: Size = 0
    drafted: Count = 0
    accepted: Count = 0
    per_step_drafted: list[int] | None = None
    per_step_accepted: list[int] | None = None
    summary: bool = False
    no_speculation: bool = False
    wrong_token: Count | None = None
    wrong_margin: float = 3.0
    plain_seconds: Seconds = 0.0
    resumes: bool = False

    @model_validator(mode="after")
    def _can_be_cut(self) -> Self:
        point = self.cut_in_utf8
        if point is None:
            return self
        texts = self.texts()
        if point >= len(texts) or texts[point].isascii():
            raise ValueError(f"cut_in_utf8: chunk {point} has no multi-byte character")
        return self

    def texts(self) -> list[str]:
        """The text of each chunk of a stream, in order."""
        default = (
            _MULTI_BYTE_TEXT if self.split_utf8 or self.cut_in_utf8 is not None else _PLAIN_TEXT
        )
        source = self.text or [default]
        own_length = self.text is not None and "chunks" not in self.model_fields_set
        count = len(source) if own_length else self.chunks
        return [source[index % len(source)] for index in range(count)]


DEFAULT = Script()


def read_script(body: bytes) -> tuple[dict[str, Any], Script]:
    """The JSON object in `body` and the script that it carries.

    Raises:
        ScriptError: The script has an unknown key or a wrong value.
        ValueError: The body is no JSON object.
    """
    payload = json.loads(body)
    if not isinstance(payload, dict):
        raise ValueError("the body is no JSON object")
    if "fake" not in payload:
        return payload, DEFAULT
    try:
        return payload, Script.model_validate(payload["fake"])
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in ("fake", *first["loc"]))
        raise ScriptError(f"{where}: {first['msg']}") from error
