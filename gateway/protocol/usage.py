"""Token counts in a worker's answers, under the names that each endpoint gives them."""

import json
import re
from collections.abc import Mapping
from typing import Any

from gateway.errors import InvalidRequestError
from gateway.protocol.json_object import EMPTY_OBJECT, parse_object
from gateway.types import Usage

_KEY = b',"usage":'
# One object with at most one level below it, as vLLM writes `usage`. A quote inside a JSON string
# is escaped, so this key can only be matched where it really is one.
_USAGE = re.compile(rb',"usage":(\{(?:[^{}"]|"[^"\\]*"|\{[^{}]*\})*\})')
# The same, as vLLM writes it into each chunk: the count is read without parsing the object.
_RUNNING = re.compile(
    rb',"usage":\{"prompt_tokens":\d+,"total_tokens":\d+,"completion_tokens":(\d+)'
    rb'(?:,"\w+":(?:null|\{[^{}]*\}))*\}'
)


def read_usage(usage: object) -> Usage | None:
    """A `usage` object of any endpoint; None when it is not one."""
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    # On `/v1/messages` the cached part of the prompt stands beside `input_tokens`, not in it.
    read, written = (
        _count(usage, "cache_read_input_tokens"),
        _count(usage, "cache_creation_input_tokens"),
    )
    return Usage(
        prompt_tokens=_count(usage, "prompt_tokens", "input_tokens") + read + written,
        completion_tokens=_count(usage, "completion_tokens", "output_tokens"),
        cached_tokens=read or _count(details if isinstance(details, dict) else {}, "cached_tokens"),
    )


def cut_running_usage(frame: bytes) -> tuple[bytes, int | None]:
    """Take the running `usage` out of a stream chunk that got it only because we asked.

    Returns:
        The frame as it would have been without it, and the completion tokens so far; the frame
        unchanged and None when there is no such member.
    """
    at = frame.rfind(_KEY)
    end, running = _running_usage(frame, at)
    return (frame, None) if running is None else (frame[:at] + frame[end:], running)


def running_tokens_of(frame: bytes) -> int | None:
    """Completion tokens so far, read from a chunk's running `usage`; None when it has none."""
    return _running_usage(frame, frame.rfind(_KEY))[1]


def usage_at_end(body: bytes) -> Usage | None:
    """The `usage` near the end of a long answer (embeddings), read without parsing all of it."""
    at = body.rfind(_KEY)
    match = _USAGE.match(body, at) if at >= 0 else None
    return None if match is None else read_usage(_object(match.group(1)))


def with_prediction_counts(text: bytes, *, accepted: int, rejected: int) -> bytes:
    """An answer or usage chunk with the fate of a prediction in `completion_tokens_details`.

    All else stays as it is; everything does where `usage` is not the object we know.
    Source: OpenAI API reference, `usage.completion_tokens_details`.
    """
    at = text.rfind(_KEY)
    match = _USAGE.match(text, at) if at >= 0 else None
    if match is None:
        return text
    try:
        usage = parse_object(match.group(1))
    except InvalidRequestError:  # it only looked like one
        return text
    details = usage.inner("completion_tokens_details")
    if details is None and usage.get("completion_tokens_details") is not None:
        return text
    counts = {
        "accepted_prediction_tokens": str(accepted),
        "rejected_prediction_tokens": str(rejected),
    }
    told = (details or EMPTY_OBJECT).edited(counts)
    edited = usage.edited({"completion_tokens_details": told}).encode()
    return text[: match.start(1)] + edited + text[match.end(1) :]


def _running_usage(frame: bytes, at: int) -> tuple[int, int | None]:
    """Where the `usage` member that begins at `at` ends, and its completion tokens."""
    if at < 0:
        return at, None
    if (known := _RUNNING.match(frame, at)) is not None:
        return known.end(), int(known.group(1))
    if (match := _USAGE.match(frame, at)) is None:
        return at, None
    value = (_object(match.group(1)) or {}).get("completion_tokens")
    return match.end(), value if isinstance(value, int) else None


def _object(text: bytes) -> dict[str, Any] | None:
    """The object that `_USAGE` found; None when it only looked like one."""
    try:
        value: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return value


def _count(usage: Mapping[str, Any], *names: str) -> int:
    """The first of `names` that holds a count; what is none (or negative) counts 0."""
    found = (value for name in names if isinstance(value := usage.get(name), int))
    return max(0, next(found, 0))
