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


def read_usage(usage: object) -> Usage | None:
    """A `usage` object of any endpoint; None when it is not one."""
    if not isinstance(usage, dict):
        return None
    prompt = _count(usage, "prompt_tokens", "input_tokens")
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    if cached is None:
        cached = usage.get("cache_read_input_tokens")
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=_count(usage, "completion_tokens", "output_tokens"),
        cached_tokens=cached if isinstance(cached, int) else 0,
    )


def cut_running_usage(frame: bytes) -> tuple[bytes, int | None]:
    """Take the running `usage` out of a stream chunk that got it only because we asked.

    Returns:
        The frame as it would have been without it, and the completion tokens so far; the frame
        unchanged and None when there is no such member.
    """
    at = frame.rfind(_KEY)
    match = _USAGE.match(frame, at) if at >= 0 else None
    if match is None:
        return frame, None
    return frame[:at] + frame[match.end() :], running_tokens(match.group(1))


def running_tokens_of(frame: bytes) -> int | None:
    """Completion tokens so far, read from a chunk's running `usage`; None when it has none."""
    at = frame.rfind(_KEY)
    match = _USAGE.match(frame, at) if at >= 0 else None
    return None if match is None else running_tokens(match.group(1))


def usage_at_end(body: bytes) -> Usage | None:
    """The `usage` near the end of a long answer (embeddings), read without parsing all of it."""
    at = body.rfind(_KEY)
    match = _USAGE.match(body, at) if at >= 0 else None
    return None if match is None else read_usage(json.loads(match.group(1)))


def running_tokens(usage: bytes) -> int | None:
    """`completion_tokens` of a `usage` object's text."""
    value = json.loads(usage).get("completion_tokens")
    return value if isinstance(value, int) else None


def _count(usage: Mapping[str, Any], *names: str) -> int:
    return next((value for name in names if isinstance(value := usage.get(name), int)), 0)
