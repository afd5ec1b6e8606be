"""Token counts in a worker's answers, under each endpoint's own names."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from gateway.errors import InvalidRequestError
from gateway.protocol.json_object import is_null, json_text, read_members, write_members
from gateway.types import Usage

_KEY = b',"usage":'
# An object with at most one nested level, as vLLM writes `usage`. Quotes inside a JSON string are
# escaped, so this only matches a real key.
_USAGE = re.compile(rb',"usage":(\{(?:[^{}"]|"[^"\\]*"|\{[^{}]*\})*\})')
# The same as vLLM writes it into each chunk; the count is read without parsing the object.
_RUNNING = re.compile(
    rb',"usage":\{"prompt_tokens":\d+,"total_tokens":\d+,"completion_tokens":(\d+)'
    rb'(?:,"\w+":(?:null|\{[^{}]*\}))*\}'
)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def read_usage(usage: object) -> Usage | None:
    """Read the `usage` object of any endpoint; None if it is not an object."""
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    # On `/v1/messages` the cached part of the prompt is not included in `input_tokens`.
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
    """Remove the running `usage` from a stream chunk whose client did not ask for it.

    Returns:
        The frame without it, and the completion tokens so far; the frame unchanged and None if it
        has no `usage`.
    """
    at = frame.rfind(_KEY)
    end, running = _running_usage(frame, at)
    return (frame, None) if running is None else (frame[:at] + frame[end:], running)


def running_tokens_of(frame: bytes) -> int | None:
    """Completion tokens so far, from a chunk's running `usage`; None if it has none."""
    return _running_usage(frame, frame.rfind(_KEY))[1]


def usage_at_end(body: bytes) -> Usage | None:
    """The `usage` near the end of a long answer (embeddings), without parsing the rest."""
    at = body.rfind(_KEY)
    match = _USAGE.match(body, at) if at >= 0 else None
    return None if match is None else read_usage(_object(match.group(1)))


def with_prediction_counts(text: bytes, *, accepted: int, rejected: int) -> bytes:
    """Add the outcome of a prediction to `completion_tokens_details` of an answer or usage chunk.

    Nothing else changes. If `usage` has an unknown shape, nothing changes at all.
    Source: OpenAI API reference, `usage.completion_tokens_details`.
    """
    at = text.rfind(_KEY)
    match = _USAGE.match(text, at) if at >= 0 else None
    if match is None:
        return text
    try:
        usage = read_members(match.group(1))
        known = usage.get("completion_tokens_details")
        details = {} if known is None or is_null(known) else read_members(known)
    except InvalidRequestError:  # not an object after all
        return text
    details["accepted_prediction_tokens"] = json_text(accepted)
    details["rejected_prediction_tokens"] = json_text(rejected)
    usage["completion_tokens_details"] = Raw(write_members(details))
    return text[: match.start(1)] + write_members(usage) + text[match.end(1) :]


def _running_usage(frame: bytes, at: int) -> tuple[int, int | None]:
    """The end of the `usage` member that begins at `at`, and its completion tokens."""
    if at < 0:
        return at, None
    if (known := _RUNNING.match(frame, at)) is not None:
        return known.end(), int(known.group(1))
    if (match := _USAGE.match(frame, at)) is None:
        return at, None
    value = (_object(match.group(1)) or {}).get("completion_tokens")
    return match.end(), value if isinstance(value, int) else None


def _object(text: bytes) -> dict[str, Any] | None:
    """Parse what `_USAGE` matched; None if it is not valid JSON."""
    try:
        return _OBJECT.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _count(usage: Mapping[str, Any], *names: str) -> int:
    """The first of `names` that holds an integer; 0 if there is none or it is negative."""
    found = (value for name in names if isinstance(value := usage.get(name), int))
    return max(0, next(found, 0))
