"""Token counts in a worker's answers, under the names that each endpoint gives them."""

import json
import re
from collections.abc import Mapping
from typing import Any

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
