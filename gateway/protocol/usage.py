"""Token counts in a worker's answers, under each endpoint's own names."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from gateway.errors import InvalidRequestError
from gateway.protocol.json_object import (
    NOT_JSON,
    is_null,
    json_text,
    read_members,
    write_members,
)
from gateway.types import Usage

_KEY = b',"usage":'
# An object with at most one nested level, as vLLM writes `usage`. Quotes inside a JSON string are
# escaped, so this only matches a real key.
_USAGE = re.compile(rb',"usage":(\{[^{}"]*(?:(?:"[^"\\]*"|\{[^{}]*\})[^{}"]*)*\})')
_COUNT_KEY = b'"completion_tokens":'
_COUNT = re.compile(_COUNT_KEY + rb" *(\d{1,15})(?=[ ,}])")
_MAX_NESTED_COUNTS = 8


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
    found = _last_usage(frame)
    if found is None or (running := _completion_tokens(found[1])) is None:
        return frame, None
    return frame[: found.start()] + frame[found.end() :], running


def usage_at_end(body: bytes) -> Usage | None:
    """The `usage` near the end of a long answer (embeddings), without parsing the rest."""
    found = _last_usage(body)
    try:
        return None if found is None else read_usage(msgspec.json.decode(found[1]))
    except NOT_JSON:  # not an object after all
        return None


def with_prediction_counts(text: bytes, *, accepted: int, rejected: int) -> bytes:
    """Add the outcome of a prediction to `completion_tokens_details` of an answer or usage chunk.

    Nothing else changes. If `usage` has an unknown shape, nothing changes at all.
    Source: OpenAI API reference, `usage.completion_tokens_details`.
    """
    found = _last_usage(text)
    if found is None:
        return text
    try:
        usage = read_members(found[1])
        known = usage.get("completion_tokens_details")
        details = {} if known is None or is_null(known) else read_members(known)
    except InvalidRequestError:  # not an object after all
        return text
    details["accepted_prediction_tokens"] = json_text(accepted)
    details["rejected_prediction_tokens"] = json_text(rejected)
    usage["completion_tokens_details"] = Raw(write_members(details))
    return text[: found.start(1)] + write_members(usage) + text[found.end(1) :]


def _last_usage(text: bytes) -> re.Match[bytes] | None:
    at = text.rfind(_KEY)
    return _USAGE.match(text, at) if at >= 0 else None


def _completion_tokens(usage: bytes) -> int | None:
    """The last count in a `usage` object itself; those in objects inside it are passed over."""
    end = len(usage)
    for _ in range(_MAX_NESTED_COUNTS):
        end = usage.rfind(_COUNT_KEY, 0, end)
        if end < 0:
            return None
        if usage.rfind(b"{", 1, end) <= usage.rfind(b"}", 0, end):  # not inside another object
            count = _COUNT.match(usage, end)
            return None if count is None else int(count[1])
    return None


def _count(usage: Mapping[str, Any], *names: str) -> int:
    """The first of `names` that holds an integer; 0 if there is none or it is negative."""
    found = (value for name in names if isinstance(value := usage.get(name), int))
    return max(0, next(found, 0))
